"""The executors of one captured graph: each runs a plan in a block of its own."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ... import Graph, Plan, _runtime
from ..plans.slower import Slower


class Executors:
    """There is more than one only while several forward passes wait for their backward pass, while
    something of an earlier step is still held where it was made, or when a plan has changed.

    ``as_graph``: whether each half of a step is submitted as one graph of the device. ``slower``:
    where plans move values.
    """

    def __init__(self, device: str, as_graph: bool = False, slower: Slower | None = None):
        self._device, self._as_graph, self._slower = device, as_graph, slower
        self._by_plan: dict[Plan, list] = {}

    def __iter__(self) -> Iterator:
        # Another thread may add some meanwhile.
        return (executor for some in list(self._by_plan.values()) for executor in some)

    def idle(self, plan: Plan, graph: Graph):
        """An executor of the plan for the graph that may begin. Blocks that nobody needs are given
        back before it takes one."""
        self._forget_other_plans(plan)
        executors = self._by_plan.setdefault(plan, [])
        found = next((executor for executor in executors if executor.idle), None)
        if found is None:
            found = self._made(plan, graph)
            executors.append(found)
        if not found.held_bytes:
            self.release_idle()
        return found

    def _made(self, plan: Plan, graph: Graph):
        if self._slower is not None:
            return self._slower.executor(graph, plan, self._device)
        return _runtime.Executor(graph, plan, self._device, self._as_graph)

    def awaiting(self, ticket: torch.Tensor):
        """The executor whose pending pass has this ticket; None when that was run or discarded."""
        return next((executor for executor in self if executor.is_pending(ticket)), None)

    def plan_of(self, executor) -> Plan | None:
        """The plan that it runs; None where its executor was let go of."""
        return next((plan for plan, some in self._by_plan.items() if executor in some), None)

    def release_idle(self, but: Plan | None = None) -> None:
        """Gives back the blocks that nobody needs now, but those of one plan."""
        for plan, executors in self._by_plan.items():
            for executor in executors if plan is not but else ():
                if executor.idle:
                    executor.release()

    def forget_all_but_pending(self) -> None:
        """Lets go of the executors that no backward pass is to come for, and of the tensors that
        they last ran with. Gradients hold the block where they lie."""
        for plan, executors in self._by_plan.items():
            self._by_plan[plan] = [executor for executor in executors if executor.pending_pass]

    def release_unused(self) -> None:
        """Gives back what no pending pass needs: states of the generator, and of blocks that their
        plans divide the sections in which no gradient lies."""
        for executor in self:
            executor.release_unused()

    def forget_moving(self) -> None:
        """Lets go of the executors that move values, but those that a backward pass is to come for:
        the others have no need of buffers for copies any more."""
        for plan in [plan for plan in self._by_plan if plan.slower_bytes]:
            if all(executor.idle for executor in self._by_plan[plan]):
                del self._by_plan[plan]

    def _forget_other_plans(self, plan: Plan) -> None:
        for other in [other for other in self._by_plan if other is not plan]:
            if all(executor.idle for executor in self._by_plan[other]):
                del self._by_plan[other]
