"""The unit of a graph's costs, and seconds."""

from __future__ import annotations

from ... import Graph

#: By the unit of a graph's costs; one that was measured has times.
_SECONDS = {"us": 1e-6, "ns": 1e-9}


def as_cost(seconds: float, graph: Graph) -> float:
    """In the unit of the graph's costs."""
    return seconds / _SECONDS[graph.cost_unit]


def as_seconds(cost: float, graph: Graph) -> float:
    return cost * _SECONDS[graph.cost_unit]
