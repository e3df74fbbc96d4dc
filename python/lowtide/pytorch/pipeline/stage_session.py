"""Runs the one graph of a stage, of which several passes wait at one time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import torch

from ... import Error, InputError
from ..autograd.region import Region
from ..autograd.traced import Traced
from ..budget.settings import Settings
from ..common.prepared import Prepared
from .waiting_plans import WaitingPlan


@dataclasses.dataclass(frozen=True)
class StageGraph:
    """The graph of a stage, as ``dynamo.compile`` asks it."""

    region: Region

    def awaiting(self, ticket: torch.Tensor) -> tuple[Region, object]:
        """The region, and the executor whose block the pass with this ticket has; None in place of
        that where it is set aside."""
        return self.region, self.region.executors.awaiting(ticket)


class StageSession:
    """What ``dynamo.compile`` wants of a session, for one graph and one plan.

    A forward pass sets aside the pass that has the block, and a backward pass brings its own back
    there, in exchange for one that has it. ``prepare()`` captures; ``use()`` is to be called with a
    plan before the first pass. While ``preparing``, a call raises Prepared instead of running.
    """

    def __init__(self, name: str, settings: Settings,
                 parameters: Sequence[torch.nn.Parameter] = ()):
        self.name, self.settings = name, settings
        self.preparing = False
        self.region: Region | None = None
        #: Seconds of the passes since ``restart_clock()``.
        self.busy = 0.0
        self._parameters = list(parameters)
        self._plan: WaitingPlan | None = None
        self._has_gradients = False

    def use(self, plan: WaitingPlan) -> None:
        self._plan = plan

    def prepare(self, call: Callable[[], object]) -> Region:
        """Captures and measures what ``call()`` runs, and runs nothing. Raises InputError where
        that is no graph with a backward pass."""
        self.preparing = True
        try:
            call()
        except Prepared:
            pass
        finally:
            self.preparing = False
        if self.region is None:
            raise InputError(f"nothing of {self.name} needs a gradient, so that there is no "
                             f"backward pass to plan: cut the model so that each stage has "
                             f"parameters that are trained")
        return self.region

    # ---- As of a Session

    def next_name(self) -> str:
        return self.name

    def begin_capture(self, device: str) -> None:
        pass

    def evaluate(self) -> None:
        """A call without gradients runs as PyTorch runs it."""
        if self.preparing:
            raise Prepared

    def add(self, traced: Traced) -> StageGraph:
        if self.region is not None:
            raise InputError(
                f"{self.name} was planned for one graph, and another call came: micro-batches of "
                f"another shape or type, a forward pass that depends on numbers, or results that "
                f"the next stage does not use. All micro-batches must be alike")
        self.region = Region(traced.captured, self.settings)
        if self.region.results.now:
            raise InputError(f"{self.name} returns a number beside other results, which its next "
                             f"stage cannot use: return the tensors alone")
        return StageGraph(self.region)

    def forward(self, graph: StageGraph, primals: Sequence) -> tuple[list, torch.Tensor]:
        if self.preparing:
            raise Prepared
        begin = time.perf_counter()
        region = graph.region
        self._clear_block(region)
        assert self._plan is not None, "a stage is given a plan before it runs"
        found = region.passes.forward(region.priced.graph, self._plan.plan, primals)
        self.busy += time.perf_counter() - begin
        return found

    def backward(self, graph: StageGraph, ticket: torch.Tensor, saved: Sequence[torch.Tensor],
                 tangents: Sequence[torch.Tensor]) -> list:
        begin = time.perf_counter()
        region, executor = graph.awaiting(ticket)
        if executor is None:  # it is aside; one that has the block takes its place there
            self._refuse_held_gradients(region)
            (executor,) = region.executors
            executor.resume(ticket)
        # The first micro-batch's become .grad. Those of others are added to that, and dropped.
        region.passes.copies_gradients = not self._has_gradients and any(
            parameter.grad is None for parameter in self._parameters)
        self._has_gradients = True
        gradients = region.passes.backward(executor, tangents, copied=True)
        region.passes.end_pass(region.priced.graph)
        self.busy += time.perf_counter() - begin
        return gradients

    def release(self) -> None:
        """The step is over: gives the block back, where no pass waits."""
        self._has_gradients = False
        for executor in () if self.region is None else self.region.executors:
            if executor.idle and not executor.passes_aside:
                executor.release()

    def restart_clock(self) -> None:
        self.busy = 0.0

    def _clear_block(self, region: Region) -> None:
        for executor in region.executors:
            if executor.pending_pass:
                executor.set_aside()
        self._refuse_held_gradients(region)

    def _refuse_held_gradients(self, region: Region) -> None:
        if any(not executor.idle and not executor.pending_pass for executor in region.executors):
            raise Error(f"gradients of {self.name} are held elsewhere than in .grad, and with them "
                        f"the memory where they lie: drop them, or copy them with .clone()")
