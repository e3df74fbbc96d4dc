"""One captured graph of a model: its plan, and the executors that run it for autograd."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

import torch

from .. import Error, InfeasibleError, Plan, _runtime
from .capture import Captured, Output
from .planning import Priced, kept, planned, priced
from .settings import Settings

#: Seconds for a plan that a training run waits for; a better one is looked for meanwhile.
_SOON = 1.0

#: The executor serves the framework's allocator for the whole process, so one runs at a time.
_ONE_AT_A_TIME = threading.RLock()


class Region:
    """Runs a captured graph: ``forward`` with the primals, and ``backward`` with what belongs to
    the ticket that it gave.

    A plan is made for each amount of memory that is there for it; the executors of a plan take a
    block each, and there is more than one only while several forward passes wait for their
    backward pass, or something of an earlier step is still held where it was made.
    """

    def __init__(self, captured: Captured, settings: Settings):
        self.captured = captured
        self.settings = settings
        self.priced: Priced = priced(captured.graph, settings)
        self._executors: dict[Plan, list] = {}
        self._plans: dict[int | None, Plan] = {}
        self._primals = _by_resident(captured)
        self._constants = dict(captured.constants)
        self._forward_wanted, self._forward_results = _wanted(captured.forward_outputs)
        self._backward_wanted, self._backward_results = _wanted(captured.gradients)

    @property
    def name(self) -> str:
        return self.captured.graph.name

    def plan_within(self, budget_bytes: int | None, *, soon: bool = False) -> Plan:
        """The plan for so many bytes, residents included. Raises InfeasibleError.

        With ``soon``, one that takes a second, and a better one later, when a thread has found it.
        """
        if budget_bytes not in self._plans:
            self._plans[budget_bytes] = (self._planned_soon(budget_bytes) if soon else
                                         planned(self.priced, budget_bytes, self.settings))
        return self._plans[budget_bytes]

    def _planned_soon(self, budget_bytes: int | None) -> Plan:
        settings = self.settings
        found = kept(self.priced, budget_bytes, settings)
        if found is not None or settings.time_limit <= _SOON:
            return found or planned(self.priced, budget_bytes, settings)
        try:
            quick = dataclasses.replace(settings, time_limit=_SOON)
            found = planned(self.priced, budget_bytes, quick)
        except InfeasibleError:
            return planned(self.priced, budget_bytes, settings)
        threading.Thread(target=self._improve, args=(budget_bytes, found), daemon=True,
                         name="lowtide-improve").start()
        return found

    def _improve(self, budget_bytes: int | None, first: Plan) -> None:
        """Replaces a plan that was made in haste; the next forward pass takes the new one."""
        try:
            better = planned(self.priced, budget_bytes,
                             dataclasses.replace(self.settings, report=None))
        except InfeasibleError:
            return  # the first one holds
        if better.cost < first.cost:
            self._plans[budget_bytes] = better

    def forward(self, plan: Plan, primals: Sequence) -> tuple[list, torch.Tensor]:
        """The forward outputs, and the ticket that backward() wants."""
        with _ONE_AT_A_TIME:
            executor = self._idle_executor(plan)
            residents = [self._resident(index, primals) for index in executor.residents]
            found, ticket = executor.forward(residents, self._forward_wanted)
        return _filled(self._forward_results, found), ticket

    def backward(self, ticket: torch.Tensor, tangents: Sequence[torch.Tensor]) -> list:
        """One gradient, or None, for each primal. Raises Error for a ticket that was used."""
        with _ONE_AT_A_TIME:
            executor = self._awaiting(int(ticket))
            found = executor.backward(tangents, self._backward_wanted)
        return _filled(self._backward_results, found)

    @property
    def executors(self) -> list:
        return [executor for some in self._executors.values() for executor in some]

    @property
    def open_flights(self) -> int:
        """How many forward passes wait for their backward pass."""
        return sum(executor.awaited != 0 for executor in self.executors)

    def release_idle(self) -> None:
        """Gives back the blocks that nobody needs now."""
        for executor in self.executors:
            if executor.idle:
                executor.release()

    def _idle_executor(self, plan: Plan):
        for other in [other for other in self._executors if other is not plan]:
            if all(executor.idle for executor in self._executors[other]):
                del self._executors[other]
        executors = self._executors.setdefault(plan, [])
        idle = next((executor for executor in executors if executor.idle), None)
        if idle is None:
            idle = _runtime.Executor(self.priced.graph, plan)
            executors.append(idle)
        if not idle.held_bytes:
            self.release_idle()
        return idle

    def _awaiting(self, number: int):
        for executor in self.executors:
            if executor.awaited == number:
                return executor
        raise Error(
            f"the backward pass of {self.name} was run already, and what it needs is overwritten: "
            f"call backward() once for each forward pass (add the losses up instead of "
            f"retain_graph=True), or run this model without Lowtide")

    def _resident(self, index: int, primals: Sequence) -> torch.Tensor:
        position = self._primals.get(index)
        return self._constants[index] if position is None else primals[position]


def _by_resident(captured: Captured) -> dict[int, int]:
    return {index: position for position, index in enumerate(captured.primals)
            if index is not None}


def _wanted(outputs: Sequence[Output]) -> tuple[list[int], list]:
    """The tensors to ask an executor for, and for each output its place among them, or itself."""
    tensors = list(dict.fromkeys(output.tensor for output in outputs if output.tensor is not None))
    return tensors, [output if output.tensor is None else tensors.index(output.tensor)
                     for output in outputs]


def _filled(results: Sequence, found: Sequence[torch.Tensor]) -> list:
    return [result.literal if isinstance(result, Output) else found[result] for result in results]
