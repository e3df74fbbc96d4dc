"""Plans of a graph of which several passes wait at one time."""

from __future__ import annotations

import dataclasses
import json

from ... import Graph, InfeasibleError, Plan, _runtime, format_bytes, plan
from ...arguments import checked_count
from ..budget.settings import Settings
from ..capture.captured import BOUNDARY
from ..plans.planning import plan_keeping_all

#: Of the most that a waiting pass may take, limits for which plans are searched.
_SHARES = (1.0, 0.7, 0.45, 0.25, 0.1, 0.0)
#: Of the block of the plan that keeps all, what is free at the boundary in searches for the
#: smallest plan.
_FREE_SHARES = (0.0, 0.3, 0.6, 0.8, 0.9, 1.0)

_MICROSECOND = 1e-6


@dataclasses.dataclass(frozen=True)
class WaitingPlan:
    """A plan, and the bytes that it takes beside residents. ``block_bytes``: while a pass runs;
    ``aside_bytes``: of a pass that waits, set aside. ``forward``, ``backward``: seconds."""

    plan: Plan
    block_bytes: int
    aside_bytes: int
    forward: float
    backward: float

    @property
    def seconds(self) -> float:
        return self.forward + self.backward

    def bytes_of(self, waiting: int) -> int:
        """What so many passes at one time take. One of them has the block."""
        return self.block_bytes + (waiting - 1) * self.aside_bytes


class NoRoom(InfeasibleError):
    """That no plan was found. ``smallest``: the bytes beside residents that one was found for.
    Users see the name that they can catch."""

    __module__, __qualname__ = "lowtide", InfeasibleError.__qualname__

    def __init__(self, message: str, smallest: int):
        super().__init__(message)
        self.smallest = smallest


class WaitingPlans:
    """Searches for plans of a measured graph with a boundary, and remembers those that it found.

    A pass between its halves holds what lives at the boundary. That is limited as a search
    understands it: by a workspace of the boundary, which takes from the budget of a plan all but
    the limit. So one search has both limits, of the block and of what waits.
    """

    def __init__(self, graph: Graph, device: str, settings: Settings):
        self.graph, self._device, self._settings = graph, device, settings
        self._boundary = next(index for index, op in enumerate(graph.ops) if op.type == BOUNDARY)
        self._limit = settings.time_limit / (len(_SHARES) + len(_FREE_SHARES))
        self.keeping_all = self._described(plan_keeping_all(graph))
        self.found = [self.keeping_all]
        self._has_smallest = False

    def within(self, available_bytes: int, waiting: int) -> WaitingPlan:
        """The fastest plan that is found by which so many passes at one time take no more than so
        many bytes beside residents. Raises NoRoom."""
        checked_count("waiting", waiting, 1)
        if self.keeping_all.bytes_of(waiting) <= available_bytes:
            return self.keeping_all
        self._search_within(available_bytes, waiting)
        fitting = self._fitting(available_bytes, waiting)
        if not fitting:
            smallest = self.smallest_bytes(waiting)
            fitting = self._fitting(available_bytes, waiting)
            if not fitting:
                raise NoRoom(f"no plan was found by which {waiting} passes at one time take "
                             f"{format_bytes(max(0, available_bytes))} beside parameters and "
                             f"inputs; the smallest takes {format_bytes(smallest)}", smallest)
        return min(fitting, key=lambda one: (one.seconds, one.bytes_of(waiting)))

    def smallest_bytes(self, waiting: int) -> int:
        """The fewest that are found for so many passes at one time."""
        if not self._has_smallest:
            self._has_smallest = True
            for share in _FREE_SHARES:
                self._search(0, int(share * self.keeping_all.block_bytes))
        return min(one.bytes_of(waiting) for one in self.found)

    def reruns_of(self, plan: WaitingPlan) -> tuple[str, ...]:
        """The names of the ops that run again, once for each time that they do."""
        seen: set[int] = set()
        found = []
        for action in plan.plan.actions:
            if action[0] != "run":
                continue
            if action[1] in seen:
                found.append(self.graph.ops[action[1]].name)
            seen.add(action[1])
        return tuple(found)

    def _search_within(self, available_bytes: int, waiting: int) -> None:
        if waiting == 1:
            self._search(available_bytes, 0)
            return
        most = min(self.keeping_all.aside_bytes, max(0, available_bytes) // waiting)
        for share in _SHARES:
            aside = int(share * most)
            block = available_bytes - (waiting - 1) * aside
            self._search(block, block - aside)

    def _search(self, block_bytes: int, free_bytes: int) -> None:
        """For a block of so many bytes, of which these are free at the boundary. Where there is
        none, what takes the least is remembered."""
        graph = _with_workspace(self.graph, self._boundary, max(0, free_bytes))
        budget = max(1, graph.resident_bytes + block_bytes)
        answer = plan(graph, budget, self._settings.unmoved_strategy,
                      options=self._settings.planning_options, time_limit=self._limit)
        found = answer.plan or answer.smallest_plan
        if found is not None:
            self.found.append(self._described(found))

    def _fitting(self, available_bytes: int, waiting: int) -> list[WaitingPlan]:
        return [one for one in self.found if one.bytes_of(waiting) <= available_bytes]

    def _described(self, found: Plan) -> WaitingPlan:
        executor = _runtime.Executor(self.graph, found, self._device)
        seconds = [0.0, 0.0]
        half, ops = 0, self.graph.ops
        for action in found.actions:
            if action[0] == "run" and action[1] == self._boundary:
                half = 1
            elif action[0] == "run":
                seconds[half] += _MICROSECOND * ops[action[1]].cost
        return WaitingPlan(found, executor.block_bytes, executor.aside_bytes, *seconds)


def _with_workspace(graph: Graph, op: int, workspace_bytes: int) -> Graph:
    document = json.loads(graph.format())
    document["ops"][op]["workspace_bytes"] = workspace_bytes
    return Graph.parse(json.dumps(document), f"the graph of {graph.name}")
