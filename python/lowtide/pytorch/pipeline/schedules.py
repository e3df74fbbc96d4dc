"""The order in which each rank of a pipeline runs its forward and backward passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B

from ... import InputError


class Pass(NamedTuple):
    """The forward or the backward pass of one stage for one micro-batch."""

    stage: int
    micro_batch: int
    is_forward: bool


#: By name: the schedule of torch.distributed.pipelining that runs it.
SCHEDULES = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B,
             "interleaved1f1b": ScheduleInterleaved1F1B}


def require_schedule(schedule: str, ranks: int, stages_per_rank: int, micro_batches: int) -> None:
    """Raises InputError for what the schedule cannot run."""
    if schedule not in SCHEDULES:
        raise InputError(f"unknown schedule {schedule!r}: choose from {', '.join(SCHEDULES)}")
    if schedule != "interleaved1f1b" and stages_per_rank != 1:
        raise InputError(f"the schedule {schedule!r} has one stage on each rank, and "
                         f"stages_per_rank={stages_per_rank}: leave it out, or choose "
                         f"schedule=\"interleaved1f1b\"")
    rounds = max(1, micro_batches // ranks)
    if schedule == "interleaved1f1b" and micro_batches % rounds:
        raise InputError(f"interleaved1f1b runs {micro_batches} micro-batches on {ranks} ranks in "
                         f"{rounds} rounds of equal size, which does not work out: choose a "
                         f"multiple of {ranks}")


def order_of(schedule: str, ranks: int, stages_per_rank: int,
             micro_batches: int) -> list[list[Pass]]:
    """By rank: its passes, in the order in which torch.distributed.pipelining runs them. Stage s
    lies on rank s % ``ranks``.

    GPipe: Huang et al., NeurIPS 2019. 1F1B: PipeDream-Flush, Narayanan et al., ICML 2021.
    Interleaved 1F1B: Narayanan et al., SC 2021.
    """
    if schedule == "gpipe":
        return [_gpipe(rank, micro_batches) for rank in range(ranks)]
    if schedule == "1f1b":
        return [_one_forward_one_backward(rank, ranks, micro_batches) for rank in range(ranks)]
    return [_interleaved(rank, ranks, stages_per_rank, micro_batches) for rank in range(ranks)]


def most_waiting(order: Iterable[Pass]) -> dict[int, int]:
    """By stage: how many of its forward passes wait for their backward passes at one time, at
    most; one that runs counts."""
    found: dict[int, int] = {}
    for waiting in waiting_together(order):
        for stage, passes in waiting.items():
            found[stage] = max(found.get(stage, 0), passes)
    return found


def waiting_together(order: Iterable[Pass]) -> list[dict[int, int]]:
    """After each forward pass of a rank: how many wait, by stage."""
    waiting: dict[int, int] = {}
    found = []
    for step in order:
        waiting[step.stage] = waiting.get(step.stage, 0) + (1 if step.is_forward else -1)
        if step.is_forward:
            found.append(dict(waiting))
    return found


def _gpipe(stage: int, micro_batches: int) -> list[Pass]:
    return [Pass(stage, index, is_forward) for is_forward in (True, False)
            for index in range(micro_batches)]


def _one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> list[Pass]:
    """So many forward passes first that the last stage's first backward pass has come back."""
    first = min(micro_batches, stages - stage)
    order = [Pass(stage, index, True) for index in range(first)]
    for index in range(micro_batches):
        order.append(Pass(stage, index, False))
        if first + index < micro_batches:
            order.append(Pass(stage, first + index, True))
    return order


def _interleaved(rank: int, ranks: int, stages_per_rank: int, micro_batches: int) -> list[Pass]:
    """Rounds of micro-batches go through the rank's stages in turn, a round through one stage
    before the next stage has it."""
    in_round = micro_batches // max(1, micro_batches // ranks)
    total = stages_per_rank * micro_batches
    first = min((stages_per_rank - 1) * in_round + 2 * (ranks - 1 - rank), total)

    def stage(number: int) -> int:
        return number // in_round % stages_per_rank * ranks + rank

    def stage_backward(number: int) -> int:
        return (stages_per_rank - 1 - number // in_round % stages_per_rank) * ranks + rank

    forward = _numbered((stage(number) for number in range(total)), True)
    backward = _numbered((stage_backward(number) for number in range(total)), False)
    order = forward[:first]
    for index, step in enumerate(backward):
        order += forward[first + index:first + index + 1]
        order.append(step)
    return order


def _numbered(stages: Iterable[int], is_forward: bool) -> list[Pass]:
    """The micro-batches of each stage come in their order."""
    seen: dict[int, int] = {}
    order = []
    for stage in stages:
        order.append(Pass(stage, seen.get(stage, 0), is_forward))
        seen[stage] = seen.get(stage, 0) + 1
    return order
