"""Candidates from PyTorch's partitioner, with smaller and smaller activation memory budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..predict.predict_peak import Prediction, predict
from ..split.joint import Halves, Joint, is_exact
from .candidate import Candidate
from .evaluate import Evaluator

#: The budgets that are looked at beside 1, which is what Inductor alone runs; the fastest first.
FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)

#: A split that is likely to exceed the budget by more than this part of it is not lowered.
FAR = 0.02

#: So many splits in a row that take more than one before are the last that are looked at.
LARGER = 3


@dataclass(frozen=True)
class PredictedSplit:
    """PyTorch's split at a budget, and what it is likely to take."""

    fraction: float
    halves: Halves
    prediction: Prediction


class TorchCandidates:
    """PyTorch's splits beside its own, looked at for a budget.

    Lowering them takes most of the time. Left out are those that do not fit by what is predicted
    and by how much that missed of the nearest that was lowered.
    """

    def __init__(self, evaluator: Evaluator, budget_bytes: int):
        self._evaluator, self._budget_bytes = evaluator, budget_bytes
        self._looked_at: list[PredictedSplit] = []

    def within(self) -> Iterator[tuple[PredictedSplit, Candidate]]:
        """Those that may fit, until one does; where none does the smallest is last, fused near."""
        for split in smaller_splits(self._evaluator.joint, self._evaluator.own.halves):
            self._looked_at.append(split)
            if self._may_fit(split):
                candidate = self._evaluated(split)
                yield split, candidate
                if candidate.expected_bytes <= self._budget_bytes:
                    return
        if self.smallest is not None:
            yield self.smallest, self._evaluated(self.smallest, near=True)

    @property
    def smallest(self) -> PredictedSplit | None:
        """Of those that were looked at."""
        return min(self._looked_at, key=lambda split: split.prediction.peak_bytes, default=None)

    def _evaluated(self, split, near=False):
        return self._evaluator.torch_split(split.fraction, split.halves, split.prediction, near)

    def _may_fit(self, split):
        likely = self._evaluator.likely_bytes(split.prediction, near=False)
        return likely <= (1 + FAR) * self._budget_bytes


def smaller_splits(joint: Joint, own: Halves) -> Iterator[PredictedSplit]:
    """The first of each that are alike at budgets below that of ``own``, up to where gradients
    would be wrong: from there on no less is computed again. What is computed again takes memory
    too, so that it ends as well where the splits become larger again."""
    last, peaks = _saved(own), []
    for fraction in FRACTIONS:
        halves = joint.torch_split(fraction)
        if not is_exact(halves):
            return
        if _saved(halves) != last:
            split = PredictedSplit(fraction, halves, predict(halves))
            yield split
            peaks.append(split.prediction.peak_bytes)
            if min(peaks) < min(peaks[-LARGER:]):
                return
        last = _saved(halves)


def _saved(halves):
    return {node.name for node in halves[1].graph.find_nodes(op="placeholder")}
