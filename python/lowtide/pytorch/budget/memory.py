"""What a training step was planned to take and took."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from ... import format_bytes


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
