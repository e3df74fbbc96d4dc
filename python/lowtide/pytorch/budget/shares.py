"""How a budget is divided among the graphs of one step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ... import InfeasibleError, format_bytes


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
    lacks to keep everything, less ``again_bytes``, which a pass needs that is replayed because not
    everything is kept. What is left when all can keep everything goes to each in proportion to its
    size: the addresses of a plan that keeps everything may take more than its values. Raises
    InfeasibleError when the floors alone exceed the budget.
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
        granted = _in_proportion(max(0, spare - again_bytes), wishes)
    else:
        sizes = [1 + need.keep_all_bytes - need.resident_bytes for need in needs]
        surplus = _in_proportion(spare - sum(wishes), sizes)
        granted = [wish + more for wish, more in zip(wishes, surplus)]
    return [need.resident_bytes + floor + grant
            for need, floor, grant in zip(needs, floors, granted)]


def _in_proportion(total_bytes: int, weights: Sequence[int]) -> list[int]:
    return [total_bytes * weight // max(1, sum(weights)) for weight in weights]
