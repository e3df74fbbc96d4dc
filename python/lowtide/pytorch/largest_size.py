"""The largest size that fits within a budget, from what some sizes need."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable

from .. import InfeasibleError, InputError

#: How many times the largest size that fits is tried at most: far from there a line says little.
_MOST_GROWTH = 8


@dataclasses.dataclass(frozen=True)
class SizeTried:
    """A size that fits. ``budget``: bytes. ``needs``: bytes that a step takes at least, None where
    that is not known. ``text``: what is told of it."""

    budget: int
    needs: int | None
    text: str


@dataclasses.dataclass(frozen=True)
class Asked:
    """For messages. ``caller``: the function that a person called. ``size``: what is to be as large
    as possible, "batch" or "length"."""

    caller: str = "max_batch"
    size: str = "batch"


class LargestSize:
    """``try_size(size)`` raises InfeasibleError for what does not fit. ``largest``: the largest
    size that fits. ``too_large``: the smallest that does not. ``reason``: why it does not."""

    def __init__(self, try_size: Callable[[int], SizeTried], report: Callable[[str], None] | None,
                 asked: Asked):
        self._try_size, self._report, self._asked = try_size, report, asked
        self.largest: int | None = None
        self.too_large: int | None = None
        self.reason: InfeasibleError | None = None
        self._budget = 0
        self._needs: dict[int, int] = {}  # by size: bytes at least
        self._step = 1

    def run(self, start: int | None, limit: int) -> None:
        """``start``: the first size; None for 1, or for 2 where a model does not run with 1, as
        batch norm does not. An error that is no matter of the budget gets a note of how far the
        search came."""
        if start is None:
            self._begin(limit)
        else:
            self._fits(start)
        while (size := self._next(limit)) is not None:
            self._fits(size)

    def _begin(self, limit: int) -> None:
        try:
            self._fits(1)
        except Exception as error:
            if limit < 2 or isinstance(error, InputError):
                raise
            with contextlib.suppress(Exception):
                self._fits(2)
                return
            raise

    def _next(self, limit: int) -> int | None:
        """The size to try now; None when nothing is left to find out."""
        if self.largest is None:
            return None
        low = self.largest
        high = limit + 1 if self.too_large is None else min(self.too_large, limit + 1)
        if high - low < 2:
            return None
        guess = self._guess(low, high)
        if low < guess < high:
            return guess
        # The line is off here: away from where it was wrong, by steps that grow.
        step, self._step = self._step, 2 * self._step
        middle = (low + high) // 2
        return min(low + step, middle) if guess <= low else max(high - step, middle)

    def _guess(self, low: int, high: int) -> int:
        """The largest size by the line through what two sizes need: one that fits and one that does
        not, or the two largest that fit."""
        known = sorted(size for size in self._needs if size in (low, self.too_large) or size < low)
        if len(known) < 2:
            return 2 * low if self.too_large is None else (low + high) // 2
        size, larger = known[-2:]
        slope = max(1.0, (self._needs[larger] - self._needs[size]) / (larger - size))
        more = (self._budget - self._needs[size]) / slope
        return min(size + math.floor(more), _MOST_GROWTH * low)

    def _fits(self, size: int) -> None:
        what = f"a {self._asked.size} of {size}"
        self._say(f"trying {what}")
        try:
            tried = self._try_size(size)
        except InfeasibleError as error:
            self.too_large, self.reason = size, error
            self._note(size, getattr(error, "smallest_budget", None))
            self._say(f"{what} does not fit")
            return
        except Exception as error:
            largest = "none was tried before" if self.largest is None else (
                f"the largest that fitted before is {self.largest}")
            error.add_note(f"{self._asked.caller} tried {what}; {largest}")
            raise
        self.largest, self._budget = size, tried.budget
        self._note(size, tried.needs)
        self._say(f"{what} fits: {tried.text}")

    def _note(self, size: int, needs: int | None) -> None:
        if needs is not None:
            self._needs[size] = needs

    def _say(self, message: str) -> None:
        if self._report is not None:
            self._report(message)
