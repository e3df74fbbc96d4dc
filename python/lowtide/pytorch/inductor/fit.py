"""Inductor within a budget, by measurement: compiles, runs a step, and corrects.

Inductor says of its buffers how large they are and how long they live; what kernels of libraries
take for themselves, and what else is allocated meanwhile, shows in a step alone. ``compile_within``
compares what the step took with what was expected and has the graph split again for less by what is
missing, or for more by what is left. Times are estimates, so that where PyTorch has a split that
fits and is about as fast, both are run in turn and the faster is kept.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from ... import InputError
from ..budget.budget import Budget
from ..budget.settings import TIME_LIMIT
from ..dynamo.trace import forget, traced
from .compiler import compiler
from .lower.lowering import KnownLowerings
from .select.candidate import Candidate, too_small
from .select.partition_fn import PlannedPartition
from .split.joint import Joint

#: A part of the budget that may stay unused: another compilation would gain little.
SLACK = 0.05
#: By so much of the budget a split may exceed it as lowered and is still compiled and measured.
FAR = 0.1
#: An estimated overhead, as a part of the time, below which another would gain little.
LITTLE = 0.01
#: By so much of the time, estimated, PyTorch's split may be slower and is still timed...
CLOSE = 0.03
#: ... so often.
TURNS = 3


@dataclass(frozen=True, eq=False)
class Fitted:
    """A compiled model whose measured peak is within a budget, and how it got there.

    ``choice``: how the graph was split. ``rounds``: how often it was compiled for the budget.
    ``joint``: the graph.
    """

    model: Callable
    measured_bytes: int
    choice: Candidate
    rounds: int
    joint: Joint

    @property
    def step_bytes(self) -> int:
        """With what follows the passes."""
        return max(self.measured_bytes, self.choice.after_bytes)


def compile_within(
    model: Callable,
    budget: Budget | int | str | None,
    measure: Callable[[Callable], int],
    *,
    other_bytes: int = 0,
    after_bytes: int = 0,
    strategy: str | None = None,
    options: Mapping[str, float | str] | None = None,
    time_limit: float = TIME_LIMIT,
    rounds: int = 4,
) -> Fitted:
    """The model compiled by Inductor such that a training step is measured within the budget.

    ``measure(compiled)`` runs at least one training step with the compiled model and returns the
    peak of the bytes that the budget is to hold: parameters, buffers, inputs, what is above them,
    and ``other_bytes`` of what the graph does not know, such as optimizer states. ``after_bytes``
    are not measured: what the step takes above those and the model's results when its passes are
    over. The other parameters are those of ``PlannedPartition``. The model, a module or a function,
    is compiled at most ``rounds`` times, once as a rule, and once more where PyTorch's split is to
    be timed.

    Ctrl-C keeps the best that holds the budget by then, and is raised where none does. Raises
    InfeasibleError with the smallest figure that was measured, or that was found where that is far
    above the budget.
    """
    fit = _Fit(model, measure, functools.partial(
        PlannedPartition, strategy=strategy, options=options, time_limit=time_limit,
        over=FAR, lowering=KnownLowerings()))
    try:
        fit.within(Budget.parse(budget), other_bytes, after_bytes, rounds)
    except KeyboardInterrupt:
        if fit.best is None:
            raise
    return fit.best


class _Fit:
    """Compiles a model again and again; ``best`` is what holds the budget so far."""

    def __init__(self, model, measure, partition_within):
        self._model, self._measure, self._partition_within = model, measure, partition_within
        self.best: Fitted | None = None

    def within(self, budget, other_bytes, after_bytes, rounds) -> None:
        smallest = math.inf
        for number in range(1, rounds + 1):
            fitted = self._compiled(budget, number, other_bytes, after_bytes)
            limit = fitted.choice.budget_bytes
            budget = Budget.parse(limit)
            smallest = min(smallest, fitted.step_bytes)
            held = limit is None or fitted.step_bytes <= limit
            if held and _improves(fitted, self.best):
                self._keep(fitted)
            else:
                forget(fitted.model)
            if (held and fitted is not self.best) or _is_last(fitted, held):
                break
            missed = fitted.measured_bytes - fitted.choice.expected_bytes
            other_bytes += missed
            after_bytes -= missed  # which the passes take, and not what follows them
        if self.best is None:
            raise too_small(limit, int(smallest), is_measured=True,
                            is_afterwards=smallest == fitted.choice.after_bytes)
        if _is_close(self.best.choice):
            rival = self._compiled(budget, self.best.rounds, other_bytes, after_bytes,
                                   only_pytorch=True)
            self._keep_faster(rival)

    def _keep(self, fitted) -> None:
        """In place of the best so far."""
        if self.best is not None:
            forget(self.best.model)
        self.best = fitted

    def _keep_faster(self, rival) -> None:
        if faster(self.best, rival, self._measure) is rival:
            self._keep(rival)
        else:
            forget(rival.model)

    def _compiled(self, budget, number, other_bytes, after_bytes, **given) -> Fitted:
        partition = self._partition_within(budget, other_bytes=other_bytes,
                                           after_bytes=after_bytes, **given)
        compiled = traced(lambda *arguments, **named: self._model(*arguments, **named),
                          compiler(partition), fullgraph=True, fixed_shapes=True)
        measured = self._measure(compiled)
        if partition.found is None or partition.joint is None:
            raise InputError("measure() compiled no training step; it must run the model that it "
                             "is given forward and backward")
        return Fitted(compiled, measured, partition.found, number, partition.joint)


def faster(ours: Fitted, theirs: Fitted, measure: Callable[[Callable], int]) -> Fitted:
    """By the fastest of several steps each, which take turns; ours where theirs does not fit."""
    if theirs.measured_bytes > ours.choice.budget_bytes:
        return ours
    seconds = {ours: math.inf, theirs: math.inf}
    for _ in range(TURNS):
        for fitted in seconds:
            seconds[fitted] = min(seconds[fitted],
                                  _seconds(functools.partial(measure, fitted.model)))
    return min(seconds, key=seconds.__getitem__)


def _is_close(candidate: Candidate) -> bool:
    """Whether one of PyTorch's splits fits as well and may be the faster."""
    return candidate.rival is not None and candidate.rival.overhead <= candidate.overhead + CLOSE


def _seconds(run: Callable[[], object]) -> float:
    _wait()
    begin = time.perf_counter()
    run()
    _wait()
    return time.perf_counter() - begin


def _wait() -> None:
    """For what an accelerator still runs."""
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


def _improves(fitted: Fitted, best: Fitted | None) -> bool:
    """A split that takes no more memory than one before is that one again, or no faster."""
    return best is None or (fitted.measured_bytes > best.measured_bytes
                            and fitted.choice.overhead < best.choice.overhead)


def _is_last(fitted: Fitted, held: bool) -> bool:
    """Whether another round would find nothing smaller, where it is wanted, or nothing faster."""
    if not held:
        return not fitted.choice.fits
    budget = fitted.choice.budget_bytes
    return (budget is None or fitted.choice.overhead <= LITTLE
            or fitted.measured_bytes >= (1 - SLACK) * budget)
