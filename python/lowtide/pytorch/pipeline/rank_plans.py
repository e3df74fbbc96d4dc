"""The plans of the stages of one rank, within the budget of the rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ... import InfeasibleError, format_bytes
from .rank_bytes import StageBytes, outside_bytes, with_outside
from .waiting_plans import NoRoom, WaitingPlan, WaitingPlans

#: That the executor takes while a pass that waits and one that has the block change places
#: (src/runtime/set_aside.cc).
_EXCHANGE_BYTES = 32768


@dataclasses.dataclass(frozen=True)
class StageToPlan:
    """``name``: for errors. ``waiting``: passes at one time, each of which takes
    ``uncounted_bytes`` that no plan counts. ``held``: whatever runs."""

    name: str
    plans: WaitingPlans
    waiting: int
    uncounted_bytes: int
    held: StageBytes

    @property
    def fixed_bytes(self) -> int:
        exchange = _EXCHANGE_BYTES if self.waiting > 1 else 0
        return self.held.fixed + self.waiting * self.uncounted_bytes + exchange

    @property
    def keep_all_bytes(self) -> int:
        return self.plans.keeping_all.bytes_of(self.waiting)


def plans_within(stages: Sequence[StageToPlan], budget_bytes: int | None) -> list[WaitingPlan]:
    """By stage. The blocks of all stages of a rank are there at one time, so each stage gets what
    its smallest plan takes, and of what is left a part in proportion to what it lacks to keep
    everything. Raises InfeasibleError with ``smallest_budget``, for the rank."""
    kept = [stage.plans.keeping_all for stage in stages]
    if budget_bytes is None:
        return kept
    _require_room_for_optimizer(stages, budget_bytes)
    left = budget_bytes - outside_bytes(budget_bytes) - sum(stage.fixed_bytes for stage in stages)
    if sum(stage.keep_all_bytes for stage in stages) <= left:
        return kept
    try:
        return [stage.plans.within(share, stage.waiting)
                for stage, share in zip(stages, _shares(stages, left))]
    except NoRoom:
        raise _too_small(stages, budget_bytes) from None


def planned_bytes(stages: Sequence[StageToPlan], plans: Sequence[WaitingPlan]) -> int:
    """What the rank takes by these plans, at most."""
    running = sum(stage.fixed_bytes + plan.bytes_of(stage.waiting)
                  for stage, plan in zip(stages, plans))
    return max(running, _while_optimizer_steps(stages))


def _shares(stages: Sequence[StageToPlan], left_bytes: int) -> list[int]:
    if len(stages) == 1:
        return [left_bytes]
    least = [stage.plans.smallest_bytes(stage.waiting) for stage in stages]
    lacks = [stage.keep_all_bytes - own for stage, own in zip(stages, least)]
    spare = left_bytes - sum(least)
    return [own + spare * lack // max(1, sum(lacks)) for own, lack in zip(least, lacks)]


def _while_optimizer_steps(stages: Sequence[StageToPlan]) -> int:
    return sum(stage.held.fixed + stage.held.optimizer_step for stage in stages)


def _require_room_for_optimizer(stages: Sequence[StageToPlan], budget_bytes: int) -> None:
    needed = with_outside(_while_optimizer_steps(stages))
    if needed > budget_bytes:
        raise _too_small(stages, budget_bytes)


def _too_small(stages: Sequence[StageToPlan], budget_bytes: int) -> InfeasibleError:
    running = sum(stage.fixed_bytes + stage.plans.smallest_bytes(stage.waiting)
                  for stage in stages)
    smallest = with_outside(max(running, _while_optimizer_steps(stages)))
    held = stages[0].held
    for stage in stages[1:]:
        held += stage.held
    passes = ", ".join(str(stage.waiting) for stage in stages)
    error = InfeasibleError(
        f"{' and '.join(stage.name for stage in stages)} cannot train within "
        f"{format_bytes(budget_bytes)} for a rank: the smallest budget that does, with these "
        f"blocks, is {format_bytes(smallest)} ({smallest} bytes). It holds {held}, and {passes} "
        f"micro-batches in flight. More or smaller micro-batches, a schedule with fewer in flight "
        f"(1f1b instead of gpipe), an optimizer with less state or more ranks need less")
    error.smallest_budget = smallest  # type: ignore[attr-defined]
    return error
