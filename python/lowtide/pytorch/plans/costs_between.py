"""Costs and scratch memory of a graph's ops, from those that were measured at other sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ... import Graph, Op


def with_costs_between(graph: Graph, measured: Sequence[Graph]) -> Graph:
    """``graph`` with costs by op on the line between the two sizes next to its own, of those that
    it was ``measured`` at. ``measured``: the same ops, by size, smallest first; the size of an op
    is the bytes of what it reads and makes.

    Scratch memory is the most that the op took at any smaller size and at the next larger one: a
    smaller size may use an algorithm that takes more.
    """
    document = json.loads(graph.format())
    known = json.loads(measured[-1].format())
    for key in ("device", "cost_unit"):
        if key in known:
            document[key] = known[key]
    others = [(_op_bytes(other), other.ops) for other in measured]
    for number, (size, record) in enumerate(zip(_op_bytes(graph), document["ops"], strict=True)):
        points = [(sizes[number], ops[number]) for sizes, ops in others]
        record["cost"] = _cost(size, points)
        scratch = max(op.workspace_bytes for op in _up_to_next(size, points))
        if scratch:
            record["workspace_bytes"] = scratch
        if all(op.cost_estimated for _, op in points):
            record["cost_estimated"] = True
    return Graph.parse(json.dumps(document), f"the graph of {graph.name}")


def _op_bytes(graph: Graph) -> list[int]:
    """By op: of all that it reads and makes, views included."""
    extent = [max(tensor.bytes, _elements(tensor.shape)) for tensor in graph.tensors]
    return [sum(extent[index] for index in (*op.inputs, *op.outputs)) for op in graph.ops]


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _up_to_next(size: int, points: Sequence[tuple[int, Op]]) -> list[Op]:
    """At sizes that are no larger, and at the next larger one."""
    larger = min((other for other, _ in points if other >= size), default=size)
    return [op for other, op in points if other <= larger] or [op for _, op in points]


def _cost(size: int, points: Sequence[tuple[int, Op]]) -> float:
    below = max((point for point in points if point[0] <= size), key=_first, default=None)
    above = min((point for point in points if point[0] >= size), key=_first, default=None)
    if below is None or above is None or below[0] == above[0]:
        return (below or above or points[0])[1].cost
    share = (size - below[0]) / (above[0] - below[0])
    return below[1].cost + share * (above[1].cost - below[1].cost)


def _first(point: tuple[int, Op]) -> int:
    return point[0]
