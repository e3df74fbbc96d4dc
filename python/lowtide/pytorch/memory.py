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
    is that of the last step, and also contains ``outside``, the most that other code of the process
    took of the framework's memory meanwhile: the first step's plan knows nothing of it, later ones
    leave it room. 0 before the first step.
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
    """Reads off what a step takes, in bytes: the highest use of its blocks, and the most that other
    code of the process took meanwhile. 0 before the first step.

    ``regions``: those whose blocks count, a list that its owner changes.
    """

    def __init__(self, regions: Sequence[Region]):
        self.block_bytes = 0
        self.outside_bytes = 0
        self._regions = regions
        self._counted_before = 0

    def begin(self) -> None:
        _runtime.reset_counted_peak()
        self._counted_before = _runtime.counted_bytes()

    def read(self) -> None:
        self.outside_bytes = _runtime.counted_peak_bytes() - self._counted_before
        self.block_bytes = sum(executor.used_bytes for region in self._regions
                               for executor in region.executors if executor.held_bytes)


def outside_room(outside_bytes: int) -> int:
    """Bytes to leave where so many were taken: some more, as that differs a little from step to
    step, and each change asks for other plans."""
    unit = max(4096, 1 << max(0, outside_bytes.bit_length() - 3))
    return -(-outside_bytes // unit) * unit


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """What tensors hold, each storage once."""
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
                for tensor in tensors}
    return sum(storages.values())
