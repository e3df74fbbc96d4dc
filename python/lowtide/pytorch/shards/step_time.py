"""How long a step takes in which collectives run while other ops do."""

from __future__ import annotations

from ... import Graph, Plan
from .collectives import WAITS
from .costs import MICROSECONDS, CollectiveCosts


def overlapped_cost(graph: Graph, plan: Plan, costs: CollectiveCosts) -> float:
    """The plan's cost less what of its collectives is hidden. They run one after another on a lane
    of their own beside the ops, each from its start on and when the lane is free; an op that waits
    for one does so to its end. What a collective takes of the processors, the ops lack."""
    ops, tensors = graph.ops, graph.tensors
    now = lane_free = 0.0
    ends: dict[int, float] = {}  # by the result of the start
    for verb, index, *_ in plan.actions:
        if verb != "run":
            continue
        op = ops[index]
        if op.type in WAITS.values():
            now = max(now, ends.pop(op.inputs[0], 0.0))
        now += op.cost
        if op.type in WAITS:
            hidden = MICROSECONDS * costs.by_start[op.type].hidden(
                tensors[op.outputs[0]].bytes, len(op.inputs))
            now -= hidden
            lane_free = ends[op.outputs[0]] = max(now, lane_free) + hidden
    return now
