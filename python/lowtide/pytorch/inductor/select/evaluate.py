"""Lowers splits of one joint graph and compares them with PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable

from ..lower.lowering import Lowered
from ..predict.predict_peak import Prediction, predict
from ..split.joint import Halves, Joint
from .candidate import Candidate, PlannedSplit

#: ``lowering.lowered``, or what knows it of some splits: of two halves, with near fusion or not.
Lowering = Callable[[Halves, bool], Lowered]


class Evaluator:
    """What splits of a joint graph take, beside ``own``, which Inductor alone would run.

    ``other_bytes`` of a step are known to nobody here. ``after_bytes``: of all that it takes when
    its passes are over; it is given those above parameters, buffers, inputs, results and others.
    """

    def __init__(self, joint: Joint, lowering: Lowering, other_bytes: int, after_bytes: int):
        self.joint, self._other_bytes, self._lowering = joint, other_bytes, lowering
        self.after_bytes = self.expected_bytes(after_bytes + joint.result_bytes)
        halves = joint.own_halves
        plain = lowering(halves, False)
        self._plain_microseconds = plain.microseconds
        self.own = self._candidate("PyTorch's own split", halves, plain)
        self.own_prediction = predict(halves)
        self._own_missed = plain.peak_bytes - self.own_prediction.peak_bytes
        self._own_copied = plain.copied_bytes
        self._missed: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
        self._learn(self.own_prediction, plain, near=False)

    def likely_bytes(self, likely: Prediction, near: bool) -> int:
        """What a split is to take when it is lowered: what is predicted, and what was missed of the
        nearest that was with such fusions; where none was, of PyTorch's own without copies."""
        _, missed = min(self._missed[near], key=lambda seen: abs(seen[0] - likely.peak_bytes),
                        default=(0, self._own_missed - self._own_copied))
        return self.expected_bytes(likely.peak_bytes + missed)

    def expected_bytes(self, peak_bytes: int) -> int:
        """In all, of a step that takes so much above parameters, buffers and inputs."""
        return self.joint.resident_bytes + self._other_bytes + peak_bytes

    def torch_split(self, fraction: float, halves: Halves, likely: Prediction,
                    near: bool = False) -> Candidate:
        """PyTorch's split at an activation memory budget."""
        return self._candidate(f"PyTorch's split at {fraction}", halves,
                            self._lowered(halves, likely, near), near=near)

    def planned(self, halves: Halves, likely: Prediction, planned: PlannedSplit) -> Candidate:
        return self._candidate("Lowtide's plan", halves, self._lowered(halves, likely, True),
                               planned, near=True)

    def fused_freely(self, candidate: Candidate) -> Candidate:
        """The same split with Inductor's own fusions."""
        found = self._lowering(candidate.halves, False)
        return self._candidate(candidate.name, candidate.halves, found, candidate.planned)

    def _lowered(self, halves, likely, near):
        found = self._lowering(halves, near)
        self._learn(likely, found, near)
        return found

    def _learn(self, likely, found, near):
        self._missed[near].append((likely.peak_bytes, found.peak_bytes - likely.peak_bytes))

    def _candidate(self, name, halves, found, planned=None, near=False):
        overhead = found.microseconds / self._plain_microseconds - 1
        expected_bytes = self.expected_bytes(found.peak_bytes)
        return Candidate(name, halves, expected_bytes, overhead, planned, near,
                         after_bytes=self.after_bytes)
