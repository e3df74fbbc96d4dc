"""What a budget counts, and how it is divided among the graphs of one model."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from ... import InfeasibleError, _core, format_bytes

_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s*")


def resolved(budget: int | float | str, keep_all_bytes: int) -> int:
    """The budget in bytes, where a step takes ``keep_all_bytes`` when all values are kept. Shares
    may be above 100%: steps to which gradients are added take more. Raises InputError.
    """
    share = _PERCENT.fullmatch(budget) if isinstance(budget, str) else None
    if share and float(share[1]) > 100:
        return int(float(share[1]) / 100 * keep_all_bytes)
    text = budget if isinstance(budget, str) else str(int(budget))
    return _core.resolve_budget(text, keep_all_bytes)


@dataclasses.dataclass(frozen=True)
class Need:
    """What one captured graph needs, in bytes: at most (every value is kept) and at least, and of
    both what its residents (parameters, buffers, inputs) take."""

    keep_all_bytes: int
    floor_bytes: int
    resident_bytes: int


def shares(total_bytes: int | None, needs: Sequence[Need],
           again_bytes: int = 0) -> list[int | None]:
    """Bytes for each graph of a step, its residents included.

    All forward passes run before the first backward pass, so the values of all graphs are held at
    once. What the budget leaves beyond every graph's floor goes to each in proportion to what it
    lacks to keep everything, less ``again_bytes``, which a flight needs that runs again because not
    everything is kept. Raises InfeasibleError when the floors alone exceed the budget.
    """
    if total_bytes is None:
        return [None] * len(needs)
    if len(needs) == 1:
        return [total_bytes]
    residents = max(need.resident_bytes for need in needs)
    floors = [need.floor_bytes - need.resident_bytes for need in needs]
    wishes = [need.keep_all_bytes - need.floor_bytes for need in needs]
    spare = total_bytes - residents - sum(floors)
    if spare < 0:
        raise InfeasibleError(
            f"the {len(needs)} graphs of this model need {format_bytes(total_bytes - spare)} "
            f"together, and {format_bytes(total_bytes)} are there; fewer graph breaks, a smaller "
            f"batch, or a larger budget would do")
    if spare < sum(wishes):
        spare = max(0, spare - again_bytes)
    part = min(1.0, spare / max(1, sum(wishes)))
    return [need.resident_bytes + floor + int(part * wish)
            for need, floor, wish in zip(needs, floors, wishes)]
