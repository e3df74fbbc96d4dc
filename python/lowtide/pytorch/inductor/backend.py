"""Inductor within a budget of bytes: a backend for torch.compile, and the loop that measures.

A plan counts each value of the graph with its own storage. Compiled code differs from that: what is
fused into one kernel never lies in memory, kernels take scratch memory that nobody knows before
they are chosen, and Inductor may order and reuse differently. So the budget that a plan is asked
for is not what the step takes. ``compile_within`` runs a step, compares what it took with the
budget and asks the planner again, for less by what is missing or for more by what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch._inductor.compile_fx import compile_fx

from ... import InfeasibleError, InputError, Planned, format_bytes
from .partition import PlannedPartition

#: A part of the budget that may stay unused: another compilation would gain little.
SLACK = 0.05


def backend(
    budget: int | str, *, strategy: str | None = None, time_limit: float = 10.0
) -> Callable:
    """``torch.compile(model, backend=backend("6GiB"), dynamic=False)``: planned, then compiled.

    ``budget`` is bytes, ``"1.5GiB"`` or ``"60%"`` of what keeping all takes, for each graph that
    Dynamo makes of the model; with ``fullgraph=True`` it makes one. ``time_limit`` is in seconds
    and for planning. The budget is kept by the plan; ``compile_within`` keeps it by measurement.

    While compiling InfeasibleError is raised when no plan is within the budget, InputError for
    graphs that cannot be planned; Dynamo wraps both (``BackendCompilerFailed.inner_exception``).
    """
    return _compiler(PlannedPartition(budget, strategy=strategy, time_limit=time_limit))


@dataclass(frozen=True)
class Fitted:
    """A compiled model whose measured peak is within a budget, and how it got there."""

    model: Callable
    measured_bytes: int
    planned: Planned
    rounds: int


def compile_within(
    model: torch.nn.Module,
    budget_bytes: int,
    measure: Callable[[Callable], int],
    *,
    strategy: str | None = None,
    time_limit: float = 10.0,
    rounds: int = 6,
) -> Fitted:
    """The model compiled by Inductor such that a training step is measured within the budget.

    ``measure(compiled)`` runs at least one training step with the compiled model and returns the
    peak of the bytes that the budget is to hold; what else it counts (optimizer states, say) it
    counts each time. The model is compiled at most ``rounds`` times, each with its own plan.

    Raises InfeasibleError with the measured figure when the smallest plan takes more than the
    budget, or when the last round does. Dynamo counts every round against its ``recompile_limit``
    for the model's code; raise that to fit many models of one class.
    """
    asked, best, too_large = budget_bytes, None, None
    for number in range(1, rounds + 1):
        partition = PlannedPartition(
            asked, strategy=strategy, time_limit=time_limit, or_smallest=True)
        compiled = torch.compile(
            model, backend=_compiler(partition), fullgraph=True, dynamic=False)
        measured = measure(compiled)
        if partition.found is None:
            raise InputError("measure() compiled no training step; it must run the model that it "
                             "is given forward and backward")
        planned_bytes = partition.found.budget_bytes
        if measured <= budget_bytes:
            best = Fitted(compiled, measured, partition.found, number)
        elif planned_bytes > asked and best is None:
            raise InfeasibleError(_message(measured, budget_bytes, "with the smallest plan"))
        else:
            too_large = planned_bytes
        asked = max(1, planned_bytes + budget_bytes - measured)
        if best is not None and (
                _good_enough(best, budget_bytes) or asked <= best.planned.budget_bytes
                or too_large is not None and asked >= too_large):
            return best
    if best is None:
        raise InfeasibleError(_message(measured, budget_bytes, f"after {rounds} rounds"))
    return best


def _compiler(partition):
    def compile_graph(graph, inputs):
        return compile_fx(graph, inputs, config_patches={"custom_partitioner_fn": partition})

    return compile_graph


def _good_enough(fitted, budget_bytes):
    computes_again = fitted.planned.plan.cost > fitted.planned.keep_all_cost
    return not computes_again or fitted.measured_bytes >= (1 - SLACK) * budget_bytes


def _message(measured, budget_bytes, when):
    return (f"a step takes {measured} bytes ({format_bytes(measured)}) {when}, the budget is "
            f"{budget_bytes} ({format_bytes(budget_bytes)}); give that much, or a smaller batch")
