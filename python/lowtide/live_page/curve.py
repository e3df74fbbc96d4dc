"""A curve that is added to without end, in memory that has one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

#: More points than a picture has columns would not be seen.
_MOST = 1000


class Curve:
    """``merged``: of the values of points that become one, such as ``max``."""

    def __init__(self, merged: Callable[[Sequence[float]], float]):
        self._merged = merged
        self._times: list[float] = []
        self._values: list[float] = []
        #: How many values a point stands for; the last may stand for fewer.
        self._per_point = 1
        self._waiting: list[float] = []

    def add(self, time: float, value: float) -> None:
        if not self._waiting:
            self._times.append(time)
            self._values.append(value)
        self._waiting.append(value)
        self._values[-1] = self._merged(self._waiting)
        if len(self._waiting) == self._per_point:
            self._waiting = []
            if len(self._values) == _MOST:
                self._halve()

    def _halve(self) -> None:
        pairs = zip(self._values[::2], self._values[1::2])
        self._times, self._values = self._times[::2], [self._merged(pair) for pair in pairs]
        self._per_point *= 2

    def document(self) -> dict:
        """``values``: None for what is no number, as in a loss that overflowed."""
        return {"seconds": list(self._times), "per_point": self._per_point,
                "values": [value if math.isfinite(value) else None for value in self._values]}


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan
