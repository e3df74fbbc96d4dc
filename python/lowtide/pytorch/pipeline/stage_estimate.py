"""What a stage of several blocks takes, by what each block takes alone."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence

from .rank_bytes import StageBytes
from .waiting_plans import WaitingPlan

#: Of a front, so many points are kept: others are left out, so that an estimate is never too low.
_MOST_POINTS = 128


@dataclasses.dataclass(frozen=True)
class BlockChoice:
    """One plan of a block. ``aside_bytes``: of a pass that waits; ``transient_bytes``: beside that
    while the block runs."""

    aside_bytes: int
    transient_bytes: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class MeasuredBlock:
    """``choices``: its plans. ``input_bytes``: of one micro-batch. ``held``: whatever runs, but for
    messages, which are those of a stage."""

    choices: tuple[BlockChoice, ...]
    input_bytes: int
    held: StageBytes


def choices_of(plans: Iterable[WaitingPlan]) -> tuple[BlockChoice, ...]:
    """Those that no other one of them is better than in everything."""
    found = {BlockChoice(one.aside_bytes, one.block_bytes - one.aside_bytes, one.seconds)
             for one in plans}
    best = [one for one in found if not any(_is_better(other, one) for other in found)]
    return tuple(sorted(best, key=dataclasses.astuple))


def fastest(blocks: Sequence[MeasuredBlock], waiting: int, available_bytes: int) -> float:
    """Seconds of a pass through the blocks one after another, forward and backward, by the fastest
    choices with which ``waiting`` passes take no more than so many bytes; infinite without any.

    A pass that waits holds what each block sets aside, and the inputs of all blocks but the first;
    so does the one that has the block.
    While a block runs, its own transient bytes are there beside that: so for each largest transient
    it is a knapsack with one choice for each block. The plan of the whole stage may be better.
    """
    times = [_fastest_with(blocks, waiting, available_bytes, transient)
             for transient in _transients(blocks)]
    return min(times, default=math.inf)


def smallest(blocks: Sequence[MeasuredBlock], waiting: int) -> int:
    """The fewest bytes by such choices."""
    inputs = _inner_inputs(blocks)
    found = []
    for transient in _transients(blocks):
        asides = [min((choice.aside_bytes for choice in block.choices
                       if choice.transient_bytes <= transient), default=None) for block in blocks]
        if None not in asides:
            found.append(transient + waiting * (sum(asides) + inputs))
    return min(found)


def _fastest_with(blocks: Sequence[MeasuredBlock], waiting: int, available_bytes: int,
                  transient: int) -> float:
    limit = (available_bytes - transient) // waiting - _inner_inputs(blocks)
    fronts = [tuple((choice.aside_bytes, choice.seconds) for choice in block.choices
                    if choice.transient_bytes <= transient) for block in blocks]
    if limit < 0 or not all(fronts):
        return math.inf
    front: tuple[tuple[int, float], ...] = functools.reduce(_joined, fronts, ((0, 0.0),))
    return min((seconds for held, seconds in front if held <= limit), default=math.inf)


def _transients(blocks: Sequence[MeasuredBlock]) -> list[int]:
    return sorted({choice.transient_bytes for block in blocks for choice in block.choices})


def _inner_inputs(blocks: Sequence[MeasuredBlock]) -> int:
    return sum(block.input_bytes for block in blocks[1:])


def _joined(front: Sequence[tuple[int, float]],
            other: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Of all sums of one of each, those that no other sum is better than in both."""
    sums = sorted((one[0] + two[0], one[1] + two[1]) for one in front for two in other)
    found: list[tuple[int, float]] = []
    for held, seconds in sums:
        if not found or seconds < found[-1][1]:
            found.append((held, seconds))
    if len(found) > _MOST_POINTS:
        step = (len(found) - 1) / (_MOST_POINTS - 1)
        found = [found[round(index * step)] for index in range(_MOST_POINTS)]
    return tuple(found)


def _is_better(one: BlockChoice, other: BlockChoice) -> bool:
    return one != other and all(
        mine <= theirs for mine, theirs in zip(dataclasses.astuple(one),
                                               dataclasses.astuple(other)))
