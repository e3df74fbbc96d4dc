"""PyTorch's splits of a joint graph with smaller and smaller activation memory budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .choice import Choice
from .foresight import Foreseen, foreseen
from .joint import Halves, Joint, is_exact
from .judge import Judge

#: The budgets that are looked at beside 1, which is what Inductor alone runs; the fastest first.
FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)

#: A split that is likely to exceed the budget by more than this part of it is not lowered.
FAR = 0.02


@dataclass(frozen=True)
class Cut:
    """PyTorch's split at a budget, and what it is likely to take."""

    fraction: float
    halves: Halves
    foreseen: Foreseen


def smaller_cuts(joint: Joint, own: Halves) -> Iterator[Cut]:
    """The first of each that are alike at budgets below that of ``own``, up to where gradients
    would be wrong: from there on no less is computed again."""
    last = _saved(own)
    for fraction in FRACTIONS:
        halves = joint.cut(fraction)
        if not is_exact(halves):
            return
        if _saved(halves) != last:
            yield Cut(fraction, halves, foreseen(halves))
        last = _saved(halves)


def splits_within(judge: Judge, budget_bytes: int) -> Iterator[tuple[Cut, Choice]]:
    """PyTorch's splits until one fits; where none does, the smallest is the last, fused near.

    Lowering takes most of the time. Left out are those that do not fit by what is foreseen and by
    how much that missed of the nearest.
    """
    looked_at = []
    for cut in smaller_cuts(judge.joint, judge.own.halves):
        looked_at.append(cut)
        if judge.likely_bytes(cut.foreseen, near=False) <= (1 + FAR) * budget_bytes:
            choice = judge.cut(cut.fraction, cut.halves, cut.foreseen)
            yield cut, choice
            if choice.expected_bytes <= budget_bytes:
                return
    if looked_at:
        smallest = min(looked_at, key=lambda cut: cut.foreseen.peak_bytes)
        yield smallest, judge.cut(smallest.fraction, smallest.halves, smallest.foreseen, near=True)


def _saved(halves):
    return {node.name for node in halves[1].graph.find_nodes(op="placeholder")}
