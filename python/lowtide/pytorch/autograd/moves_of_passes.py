"""What the passes of one captured graph move to slower memory and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ... import Graph, Plan, _runtime
from ..budget.memory import Moved
from ..plans.slower import Slower
from .executors import Executors


class MovesOfPasses:
    """The parameters that passes send away, and what was moved in all. ``slower``: where to; None
    where nothing moves."""

    def __init__(self, executors: Executors, device: str, slower: Slower | None):
        self._executors, self._device, self._slower = executors, device, slower
        #: By the last pass whose backward half has run.
        self.last = Moved()
        #: Of the parameters that the last pass sent away: what the framework had not counted.
        self.uncounted_before = 0

    def send_away(self, executor, plan: Plan, given: Sequence[torch.Tensor]) -> None:
        """The parameters that the plan moves, which is the executor's."""
        self.uncounted_before = 0
        if not plan.residents_away:
            return
        taken = _runtime.taken_bytes(self._device)
        executor.send_away(given)
        freed = taken - _runtime.taken_bytes(self._device)
        self.uncounted_before = executor.away_bytes - freed

    def bring_back(self, of_pending: bool = True) -> None:
        """Parameters that were sent away are in memory again, those of pending passes where that
        is wanted: their loads do not need what is there. Raises Error where a copy fails."""
        for executor in self._executors:
            if executor.away_bytes and (of_pending or not executor.pending_pass):
                executor.bring_back()

    def end_pass(self, graph: Graph, executor: _runtime.Executor | None) -> None:
        """After the backward pass of an executor of the graph, if it ran in one, when the blocks
        that it does not need were given back."""
        self.bring_back(of_pending=False)
        if executor is None:
            return
        by_place = [Moved(*counted) for counted in executor.moved]
        self.last = sum(by_place, Moved())
        plan = self._executors.plan_of(executor)
        if self._slower is not None and plan is not None:
            self._slower.note_pass(graph, plan, by_place)
