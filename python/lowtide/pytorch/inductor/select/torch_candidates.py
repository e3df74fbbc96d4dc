"""PyTorch's splits of a joint graph with smaller and smaller activation memory budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..predict.predict_peak import Foreseen, foreseen
from ..split.joint import Halves, Joint, is_exact
from .candidate import Choice
from .evaluate import Judge

#: The budgets that are looked at beside 1, which is what Inductor alone runs; the fastest first.
FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)

#: A split that is likely to exceed the budget by more than this part of it is not lowered.
FAR = 0.02

#: So many splits in a row that take more than one before are the last that are looked at.
LARGER = 3


@dataclass(frozen=True)
class Cut:
    """PyTorch's split at a budget, and what it is likely to take."""

    fraction: float
    halves: Halves
    foreseen: Foreseen


class Cuts:
    """PyTorch's splits beside its own, looked at for a budget.

    Lowering them takes most of the time. Left out are those that do not fit by what is foreseen and
    by how much that missed of the nearest that was lowered.
    """

    def __init__(self, judge: Judge, budget_bytes: int):
        self._judge, self._budget_bytes = judge, budget_bytes
        self._looked_at: list[Cut] = []

    def within(self) -> Iterator[tuple[Cut, Choice]]:
        """Those that may fit, until one does; where none does the smallest is last, fused near."""
        for cut in smaller_cuts(self._judge.joint, self._judge.own.halves):
            self._looked_at.append(cut)
            if self._may_fit(cut):
                choice = self._judge.cut(cut.fraction, cut.halves, cut.foreseen)
                yield cut, choice
                if choice.expected_bytes <= self._budget_bytes:
                    return
        if self.smallest is not None:
            cut = self.smallest
            yield cut, self._judge.cut(cut.fraction, cut.halves, cut.foreseen, near=True)

    @property
    def smallest(self) -> Cut | None:
        """Of those that were looked at."""
        return min(self._looked_at, key=lambda cut: cut.foreseen.peak_bytes, default=None)

    def _may_fit(self, cut):
        likely = self._judge.likely_bytes(cut.foreseen, near=False)
        return likely <= (1 + FAR) * self._budget_bytes


def smaller_cuts(joint: Joint, own: Halves) -> Iterator[Cut]:
    """The first of each that are alike at budgets below that of ``own``, up to where gradients
    would be wrong: from there on no less is computed again. What is computed again takes memory
    too, so that it ends as well where the splits become larger again."""
    last, peaks = _saved(own), []
    for fraction in FRACTIONS:
        halves = joint.cut(fraction)
        if not is_exact(halves):
            return
        if _saved(halves) != last:
            cut = Cut(fraction, halves, foreseen(halves))
            yield cut
            peaks.append(cut.foreseen.peak_bytes)
            if min(peaks) < min(peaks[-LARGER:]):
                return
        last = _saved(halves)


def _saved(halves):
    return {node.name for node in halves[1].graph.find_nodes(op="placeholder")}
