"""What a compiled step was planned as: a graph of kernels, and a plan of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ... import Graph, Plan, keep_all
from .fit import Fitted
from .split.kernel_groups import Group


@dataclass(frozen=True)
class PlannedStep:
    """``graph``: of kernels, with estimated costs; ``plan``: of it, without addresses, which
    Inductor chooses. ``groups``: by op, the nodes that it runs, the last of which it makes; None
    for the boundary. ``again``: ops by which PyTorch's split has the backward compute what the
    forward did. ``whole``: the graph of PyTorch's own split, which Inductor alone runs; None where
    ``graph`` is that. ``is_ours``: whether the plan is Lowtide's, and not a split of PyTorch's."""

    graph: Graph
    plan: Plan
    groups: Sequence[Group | None]
    again: frozenset[int]
    whole: Graph | None
    is_ours: bool


def planned_step(fitted: Fitted, name: str) -> PlannedStep:
    """``name``: of the model. Raises InputError for a graph that cannot be planned, though Inductor
    compiles it."""
    joint, choice = fitted.joint, fitted.choice
    known = choice.planned
    kernel_graph = joint.kernel_graph(choice.halves) if known is None else known.kernel_graph
    own = _named(joint.kernel_graph(joint.own_halves).kernels.graph, name)
    graph = _named(kernel_graph.kernels.graph, name)
    groups, repeated = kernel_graph.kernels.groups, kernel_graph.merged.again
    again = frozenset(op for op, group in enumerate(groups)
                      if group is not None and group[-1].name in repeated)
    plan = keep_all(graph) if known is None else _without_addresses(known.found.plan, name)
    is_own = graph.format() == own.format()
    return PlannedStep(graph, plan, groups, again, None if is_own else own, known is not None)


def _named(graph: Graph, name: str) -> Graph:
    return Graph.parse(json.dumps({**json.loads(graph.format()), "name": name}))


def _without_addresses(plan: Plan, name: str) -> Plan:
    document = json.loads(plan.format())
    for key in ("arena_bytes", "offsets", "borders"):
        document.pop(key, None)
    return Plan.parse(json.dumps({**document, "graph": name}))
