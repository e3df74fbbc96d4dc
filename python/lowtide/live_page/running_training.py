"""What is known of a training that runs: written by its thread, read by that of the page."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping

from .curve import Curve, mean

#: The rate is that of so many last ones.
_RECENT = 50
#: Names of values that a page has curves for.
_MOST_NAMES = 32


class RunningTraining:
    """``name``: of the model."""

    def __init__(self, name: str):
        self._name = name
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._figures: dict[str, float] = {}
        self._passes, self._steps = _Rate(), _Rate()
        self._peaks = {"planned_bytes": Curve(max), "peak_bytes": Curve(max)}
        self._values: dict[str, Curve] = {}

    def show(self, figures: Mapping[str, float]) -> None:
        """``figures``: as of ``lowtide.metrics``, without a prefix."""
        with self._lock:
            self._figures = dict(figures)

    def note_pass(self, figures: Mapping[str, float]) -> None:
        """A forward and a backward pass are over."""
        now = time.monotonic()
        with self._lock:
            self._figures = dict(figures)
            self._passes.note(now)
            for name, curve in self._peaks.items():
                if name in figures:
                    curve.add(now - self._began, figures[name])

    def note_step(self, values: Mapping[str, float]) -> None:
        """A step of the training is over, of which the user gives values, such as the loss."""
        now = time.monotonic()
        with self._lock:
            self._steps.note(now)
            for name, value in values.items():
                if name not in self._values and len(self._values) == _MOST_NAMES:
                    continue
                self._values.setdefault(name, Curve(mean)).add(now - self._began, value)

    def document(self) -> dict:
        """For JSON."""
        with self._lock:
            return {"name": self._name, "seconds": time.monotonic() - self._began,
                    "figures": self._figures, "passes": self._passes.document(),
                    "steps": self._steps.document(),
                    "memory": {name: curve.document() for name, curve in self._peaks.items()},
                    "values": {name: curve.document() for name, curve in self._values.items()}}


class _Rate:
    """How many there were, and how many there are in a second."""

    def __init__(self):
        self._count = 0
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def note(self, now: float) -> None:
        self._count += 1
        self._recent.append(now)

    def document(self) -> dict:
        return {"count": self._count, "per_second": self._per_second()}

    def _per_second(self) -> float | None:
        if len(self._recent) < 2 or self._recent[-1] <= self._recent[0]:
            return None
        return (len(self._recent) - 1) / (self._recent[-1] - self._recent[0])
