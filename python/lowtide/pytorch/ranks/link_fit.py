"""Latency and bandwidth that fit measured times best, where some of the times are far off."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

#: Of a normal distribution, the standard deviation by the median absolute deviation.
_DEVIATION = 1.4826
_FARTHEST = 3.0
#: Relative deviations that times of one transfer have on a quiet machine are no outliers.
_USUAL = 0.05


@dataclasses.dataclass(frozen=True)
class Link:
    """A transfer of n bytes takes ``latency`` seconds + n / ``bandwidth``, in bytes per second;
    infinite where no time for bytes was seen."""

    latency: float
    bandwidth: float

    def seconds(self, bytes: float) -> float:
        return self.latency + bytes / self.bandwidth


@dataclasses.dataclass(frozen=True)
class Sample:
    """The time that a transfer of so many bytes took."""

    bytes: float
    seconds: float

    def deviation(self, link: Link) -> float:
        """Relative, so that short transfers count as long ones do."""
        return abs(link.seconds(self.bytes) / self.seconds - 1)


def fitted_link(samples: Sequence[Sample]) -> Link:
    """The least squares of relative deviations, neither figure negative, over the samples that are
    not outliers. Needs two sizes, and times above 0.

    Outliers are seen from the line through two of the samples that has the least sum of absolute
    deviations; fewer than half of the samples do not move it far.
    """
    start = min(_lines_through_two(samples),
                key=lambda link: sum(sample.deviation(link) for sample in samples))
    spread = statistics.median(sample.deviation(start) for sample in samples)
    farthest = max(_FARTHEST * _DEVIATION * spread, _USUAL)
    return _least_squares([sample for sample in samples if sample.deviation(start) <= farthest])


def _lines_through_two(samples: Sequence[Sample]) -> Iterator[Link]:
    for pair in itertools.combinations(samples, 2):
        if pair[0].bytes != pair[1].bytes:
            yield _least_squares(pair)


def _least_squares(samples: Sequence[Sample]) -> Link:
    """Of seconds = latency + bytes * per_byte, in units of the seconds: each sample is a row
    (1, bytes) / seconds with the right side 1."""
    ones = sum(1 / s.seconds**2 for s in samples)
    mixed = sum(s.bytes / s.seconds**2 for s in samples)
    squares = sum((s.bytes / s.seconds)**2 for s in samples)
    right, right_bytes = sum(1 / s.seconds for s in samples), sum(
        s.bytes / s.seconds for s in samples)
    determinant = ones * squares - mixed**2
    if determinant <= 1e-12 * ones * squares:  # all of one size
        return Link(right / ones, math.inf)
    latency = (squares * right - mixed * right_bytes) / determinant
    per_byte = (ones * right_bytes - mixed * right) / determinant
    if latency < 0:
        latency, per_byte = 0.0, right_bytes / squares
    if per_byte <= 0:
        return Link(right / ones, math.inf)
    return Link(latency, 1 / per_byte)
