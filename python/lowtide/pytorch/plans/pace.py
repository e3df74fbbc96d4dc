"""How fast copies to a place of slower memory are while a model trains."""

from __future__ import annotations

import math

from ..budget.memory import Moved

#: Steps in a row in which copies take longer than planned, after which plans are made for that: a
#: disk that others use for a moment is no slower disk.
_STEPS = 8

#: How much longer or shorter copies take that are worth other plans.
_NOTABLE = 1.5

#: Of a step, for how long ops wait at least where plans for slower copies are of use.
_NOTABLE_WAIT = 0.05


class Pace:
    """Compares the copies of each step with the time that its plans have for them.

    Copies that took longer in a number of steps in a row, in which ops waited for them, are taken
    to be slower from then on, by as much as in the best of these steps. Where they are faster again
    in as many steps, they are taken to be faster, and never than they were at first.
    """

    def __init__(self):
        #: How many times as long copies take as they did at first.
        self.slowdown = 1.0
        self._moved, self._planned_seconds = Moved(), 0.0
        #: Of the last steps in a row, all slower or all faster: times as long as planned.
        self._ratios: list[float] = []

    def note(self, moved: Moved, planned_seconds: float) -> None:
        """Both halves of a pass have run; the plan has so many seconds for its copies."""
        self._moved += moved
        self._planned_seconds += planned_seconds

    def end_step(self, step_seconds: float) -> bool:
        """Whether copies are taken to be slower or faster from now on. ``step_seconds``: that the
        step was planned to take."""
        moved, planned = self._moved, self._planned_seconds
        self._moved, self._planned_seconds = Moved(), 0.0
        if planned <= 0.0 or not moved.copy_seconds:
            return False
        ratio = moved.copy_seconds / planned
        is_slower = ratio >= _NOTABLE and moved.wait_seconds >= _NOTABLE_WAIT * step_seconds
        is_faster = ratio <= 1 / _NOTABLE and self.slowdown > 1.0
        if not (is_slower or is_faster) or (self._ratios and (self._ratios[0] > 1) != is_slower):
            self._ratios.clear()
        if is_slower or is_faster:
            self._ratios.append(ratio)
        if len(self._ratios) < _STEPS:
            return False
        before = self.slowdown
        change = min(self._ratios) if is_slower else max(self._ratios)
        self._ratios.clear()
        self.slowdown = max(1.0, _rounded(before * change))
        return self.slowdown != before


def _rounded(slowdown: float) -> float:
    """To a power of the square root of 2: plans that are kept for one speed serve at its like."""
    return float(2 ** (round(2 * math.log2(slowdown)) / 2))
