"""How long a step of a pipeline takes, by the times of its stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from .schedules import Pass


@dataclasses.dataclass(frozen=True)
class StageTimes:
    """Seconds for one micro-batch. ``send``: its results to the next stage, or the gradients of its
    inputs to the one before, whichever takes longer."""

    forward: float
    backward: float
    send: float = 0.0


@dataclasses.dataclass(frozen=True)
class StepTime:
    """Seconds of a step, and by rank those in which it computes."""

    seconds: float
    busy: tuple[float, ...]

    @property
    def bubble(self) -> float:
        """The share of all ranks' time in which they wait."""
        return 1 - sum(self.busy) / (len(self.busy) * self.seconds) if self.seconds else 0.0


def step_time(order: Sequence[Sequence[Pass]], stages: Sequence[StageTimes]) -> StepTime:
    """Runs the order of ``schedules.order_of`` on a clock: a pass begins when its rank is free and
    what it needs of its neighbour has come. Sends take time of the way, and none of a rank.

    Raises ValueError where ranks wait for each other for ever.
    """
    done: dict[Pass, float] = {}
    clock, at = [0.0] * len(order), [0] * len(order)
    while any(at[rank] < len(passes) for rank, passes in enumerate(order)):
        moved = False
        for rank, passes in enumerate(order):
            while at[rank] < len(passes):
                step = passes[at[rank]]
                ready = _ready(step, done, stages, len(order))
                if ready is None:
                    break
                clock[rank] = max(clock[rank], ready) + _seconds(step, stages)
                done[step] = clock[rank]
                at[rank] += 1
                moved = True
        if not moved:
            raise ValueError("the ranks of this order wait for each other for ever")
    busy = tuple(sum(_seconds(step, stages) for step in passes) for passes in order)
    return StepTime(max(clock), busy)


def _seconds(step: Pass, stages: Sequence[StageTimes]) -> float:
    times = stages[step.stage]
    return times.forward if step.is_forward else times.backward


def _ready(step: Pass, done: dict[Pass, float], stages: Sequence[StageTimes],
           ranks: int) -> float | None:
    """When all is there that the pass reads; None where that is not known yet."""
    stage, micro_batch, is_forward = step
    needed = []
    if not is_forward:
        needed.append((Pass(stage, micro_batch, True), 0.0))
    before = stage - 1 if is_forward else stage + 1
    if 0 <= before < len(stages):
        send = stages[before].send if before % ranks != stage % ranks else 0.0
        needed.append((Pass(before, micro_batch, is_forward), send))
    if any(one not in done for one, _ in needed):
        return None
    return max((done[one] + send for one, send in needed), default=0.0)
