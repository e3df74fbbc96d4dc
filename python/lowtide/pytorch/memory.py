"""What a training step was planned to take and took."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import torch

from .. import _runtime, format_bytes
from .region import Region


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of a training step (the last one, where sizes differ), all that it needs.

    ``budget``: None for no limit. ``existing``: what is there before the step: parameters, buffers,
    inputs, gradients that are kept from before, and the optimizer's state (as the optimizer holds
    it, or what it will hold). ``planned_peak`` and ``measured_peak`` contain it; ``measured_peak``
    is the most that was there at one time: blocks, results in the caller's memory, what other code
    of the process took of the framework's memory, measuring where a graph was captured; and, once
    the next step has begun, what came between them, such as the optimizer's step. ``outside``: the
    most that other code took until the backward pass was over: the first step's plan knows nothing
    of it, later ones leave it room. Both are 0 before the first step.
    """

    budget: int | None
    existing: int
    planned_peak: int
    measured_peak: int = 0
    outside: int = 0

    @property
    def planned_above(self) -> int:
        """The planned peak less what existed before the step."""
        return self.planned_peak - self.existing

    @property
    def measured_above(self) -> int:
        """The measured peak less what existed before the step."""
        return max(0, self.measured_peak - self.existing)

    def __str__(self) -> str:
        limit = "none" if self.budget is None else format_bytes(self.budget)
        return (f"budget {limit}, planned peak {format_bytes(self.planned_peak)}, measured "
                f"{format_bytes(self.measured_peak)}, of which {format_bytes(self.existing)} "
                f"existed before the step and {format_bytes(self.outside)} were taken outside")


class Meter:
    """Reads off what a step takes of the framework's memory, in bytes, from its first forward pass,
    or what is captured before it, until the next step begins.

    ``regions``: those whose blocks count as taken by a step though they are kept between steps, a
    list that its owner changes.
    """

    def __init__(self, regions: Sequence[Region]):
        #: The most that other code took in the last step whose backward pass was read.
        self.outside_bytes = 0
        #: By how much the step took more than its plans count.
        self.unforeseen_bytes = 0
        self._regions = regions
        self._is_capturing = False
        self._is_open = False
        self._before = self._unserved_before = 0
        self._outside = self._until_backward = self._after_backward = 0
        self._is_read = False
        self._taken_before = 0

    def capture(self) -> None:
        """A graph is to be captured for the step that comes: it begins with this."""
        if not self._is_capturing:
            self._open()
            self._is_capturing = True

    def begin(self) -> None:
        """The first forward pass of a step comes."""
        if self._is_capturing:
            self._until_backward = _runtime.taken_peak_bytes()
            _runtime.reset_peaks()
        else:
            self._open()
        self._before = _runtime.taken_bytes() - self._held_bytes()
        self._unserved_before = _runtime.unserved_bytes()
        self._is_capturing = False

    def read(self) -> None:
        """A backward pass has ended."""
        if self._is_open:
            self._is_read = True
            self._outside = max(self._outside,
                                _runtime.unserved_peak_bytes() - self._unserved_before)
            self.outside_bytes = self._outside
            peak = _runtime.taken_peak_bytes()
            self._until_backward = max(self._until_backward, peak)
            self.unforeseen_bytes = max(self.unforeseen_bytes,
                                        peak - self._before - self._foreseen_bytes())
            _runtime.reset_peaks()

    def end(self) -> None:
        """What follows is no part of the step."""
        if self._is_open and not self._is_capturing:
            self._after_backward = _runtime.taken_peak_bytes() - self._made_bytes() - self._before
            self._is_open = False

    @property
    def taken_bytes(self) -> int:
        """The most that a step took, beside what existed before it: the last one whose backward
        pass was read until that was over, and afterwards the last one that another one followed."""
        if not self._is_read:
            return self._taken_before
        return max(self._until_backward - self._before, self._after_backward)

    def _open(self) -> None:
        self._taken_before, self._is_read = self.taken_bytes, False
        _runtime.reset_peaks()
        self._until_backward = self._outside = self.unforeseen_bytes = 0
        self._is_open = True

    def _made_bytes(self) -> int:
        """What was made since the step began and lasts: the optimizer's state in its first step,
        which counts among what exists, and what the caller keeps for other ends."""
        return max(0, _runtime.taken_bytes() - self._held_bytes() - self._before)

    def _foreseen_bytes(self) -> int:
        return sum(executor.block_bytes + region.beside_bytes for region in self._regions
                   for executor in region.executors if executor.held_bytes)

    def _held_bytes(self) -> int:
        return sum(executor.held_bytes for region in self._regions for executor in region.executors)


def outside_room(outside_bytes: int) -> int:
    """Bytes to leave where so many were taken: some more, as that differs a little from step to
    step, and each change asks for other plans."""
    taken = max(0, outside_bytes)
    unit = max(4096, 1 << max(0, taken.bit_length() - 3))
    return -(-taken // unit) * unit


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """What tensors hold, each storage once."""
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
                for tensor in tensors}
    return sum(storages.values())
