"""How long a step takes in which collectives and copies run while ops do."""

from __future__ import annotations

import json

from ... import Graph, Plan
from .collectives import WAITS
from .costs import MICROSECONDS, CollectiveCosts


def overlapped_cost(graph: Graph, plan: Plan, costs: CollectiveCosts) -> float:
    """The plan's cost less what of its collectives is hidden. They run one after another on a lane
    of their own beside the ops, each from its start on and when the lane is free; an op that waits
    for one does so to its end. What a collective takes of the processors, the ops lack. Copies to
    slower memory have lanes beside both."""
    ops, tensors = graph.ops, graph.tensors
    copies = _CopyLanes(graph, plan)
    now = lane_free = 0.0
    ends: dict[int, float] = {}  # by the result of the start
    for verb, index, *_ in plan.actions:
        if verb in ("offload", "prefetch"):
            copies.start(verb, index, now)
        elif verb == "wait":
            now = max(now, copies.end(index))
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


class _CopyLanes:
    """When the copies of a plan end. Those of one place and direction go one after another, each
    from when the plan starts it on; both directions where they share their way."""

    def __init__(self, graph: Graph, plan: Plan):
        document = json.loads(plan.format()) if plan.slower_bytes else {}
        second = document.get("second_place")
        self._tensors = graph.tensors
        self._places = [document] if second is None else [document, second]
        self._in_second = set() if second is None else {
            storage for storage, offset in document["copies"] if offset >= second["begin"]}
        self._free: dict[tuple[int, str], float] = {}  # by lane, when it has ended all so far
        self._ends: dict[int, float] = {}  # by storage

    def start(self, verb: str, index: int, now: float) -> None:
        storage = self._storage(index)
        place = int(storage in self._in_second)
        lanes = self._places[place]
        name = "lane_out" if verb == "offload" else "lane_in"
        latency, per_byte = lanes.get(name, (0.0, 0.0))
        lane = place, "both" if lanes.get("lanes_shared", False) else name
        begin = max(now, self._free.get(lane, 0.0))
        self._free[lane] = begin + latency + per_byte * self._tensors[storage].bytes
        self._ends[storage] = self._free[lane]

    def end(self, index: int) -> float:
        """Of the last copy of it."""
        return self._ends[self._storage(index)]

    def _storage(self, index: int) -> int:
        alias = self._tensors[index].alias_of
        return index if alias is None else alias
