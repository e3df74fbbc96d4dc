"""Measures what a training takes while it runs, by the counters of the framework's allocator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..budget.optimizer_state import present_state_bytes
from .counters import Counter, counter_of


@dataclass(frozen=True)
class FoundBytes:
    """What there is before a step: ``taken_bytes`` of the allocator, ``gradient_bytes`` among them,
    and ``state_bytes`` of the optimizer's state; None where its optimizer is not known."""

    counter: Counter
    taken_bytes: int
    gradient_bytes: int
    state_bytes: int | None

    @classmethod
    def now(cls, device: torch.device, gradient_bytes: int, optimizer) -> FoundBytes:
        counter = counter_of(device)
        is_known = isinstance(optimizer, torch.optim.Optimizer)
        return cls(counter, counter.now(), gradient_bytes,
                   present_state_bytes(optimizer) if is_known else None)


class PassMeter:
    """Of passes that follow each other: what the allocator gave at most from where one begins until
    the next one does, above what there was. On the CPU alone: of other devices the counters are the
    user's, who may read them too, and a step would have to be waited for.

    ``optimizer``: a pass in which it made its state is left out, as that counts as what exists.
    """

    def __init__(self, optimizer):
        self._optimizer = optimizer if isinstance(optimizer, torch.optim.Optimizer) else None
        #: What there was where the pass that is under way began; None between passes.
        self._counter: Counter | None = None
        self._before = self._highest = 0
        #: Of the optimizer; None when it makes no more, as looking takes milliseconds.
        self._state: int | None = None if self._optimizer is None else 0

    def begin(self, device: torch.device) -> None:
        if device.type == "cpu":
            self._counter = counter_of(device)
            self._before = self._highest = self._counter.taken()
            self._counter.forget_peak()
            if self._state is not None:
                self._state = present_state_bytes(self._optimizer)

    def end(self) -> int | None:
        """What the pass took; None where none is under way, or where state was made."""
        found = self.so_far()
        if found is not None and self._state:
            self._state = None
        self._counter = None
        return found

    def so_far(self) -> int | None:
        """The same of the pass that is under way."""
        if self._counter is None:
            return None
        self._highest = max(self._highest, self._counter.peak())
        if self._state is not None and present_state_bytes(self._optimizer) != self._state:
            return None
        return self._highest - self._before

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """What is run within is no part of the pass."""
        self.so_far()
        try:
            yield
        finally:
            if self._counter is not None:
                self._counter.forget_peak()
