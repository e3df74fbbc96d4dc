"""What a training step was planned to take and took."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from ... import format_bytes
from ...notebook import as_printed, bars
from ..common.local_tensor import counted_parts


@dataclasses.dataclass(frozen=True)
class Moved:
    """What a training step moved to slower memory and back, in bytes; ``copy_seconds``: in which
    copies in either direction were under way; ``wait_seconds``: of them, those in which ops waited.
    """

    bytes_out: int = 0
    bytes_in: int = 0
    copy_seconds: float = 0.0
    wait_seconds: float = 0.0

    @property
    def hidden_seconds(self) -> float:
        """In which copies were under way and ops ran."""
        return max(0.0, self.copy_seconds - self.wait_seconds)

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.bytes_out + other.bytes_out, self.bytes_in + other.bytes_in,
                     self.copy_seconds + other.copy_seconds,
                     self.wait_seconds + other.wait_seconds)

    def __sub__(self, before: Moved) -> Moved:
        return Moved(self.bytes_out - before.bytes_out, self.bytes_in - before.bytes_in,
                     self.copy_seconds - before.copy_seconds,
                     self.wait_seconds - before.wait_seconds)

    def __str__(self) -> str:
        return (f"{format_bytes(self.bytes_out)} moved out and {format_bytes(self.bytes_in)} back, "
                f"in copies of {self.copy_seconds:.3f} s, of which {self.hidden_seconds:.3f} s "
                f"were hidden behind ops and {self.wait_seconds:.3f} s were waited for")


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
    of it, later ones leave it room. Both are 0 before the first step. ``moved``: what went to
    slower memory and came back, where ``offload`` was given. ``state_bytes``: of the optimizer's
    state, those that lie in slower memory and count in none of the others; ``state_moved``: what
    the optimizer's last step moved of them. ``copies_slower``: how many times as long copies
    take as they were measured to before the first step, where plans were made anew for that.
    """

    budget: int | None
    existing: int
    planned_peak: int
    measured_peak: int = 0
    outside: int = 0
    moved: Moved = Moved()
    state_bytes: int = 0
    state_moved: Moved = Moved()
    copies_slower: float = 1.0

    @property
    def planned_above(self) -> int:
        """The planned peak less what existed before the step."""
        return self.planned_peak - self.existing

    @property
    def measured_above(self) -> int:
        """The measured peak less what existed before the step."""
        return max(0, self.measured_peak - self.existing)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        sizes = {"budget": self.budget, "planned peak": self.planned_peak,
                 "measured peak": self.measured_peak,
                 "existed before the step": self.existing, "taken outside": self.outside,
                 "moved out": self.moved.bytes_out, "moved back": self.moved.bytes_in}
        return bars({name: size for name, size in sizes.items() if size})

    _repr_pretty_ = as_printed

    def __str__(self) -> str:
        limit = "none" if self.budget is None else format_bytes(self.budget)
        moved = f"; {self.moved}" if self.moved.bytes_out else ""
        if self.state_bytes:
            moved += f"; {format_bytes(self.state_bytes)} of optimizer state in slower memory"
        if self.state_moved.bytes_out:
            moved += f", of which {self.state_moved}"
        if self.copies_slower > 1.0:
            moved += f"; copies take {self.copies_slower:.1f} times as long as was measured"
        return (f"budget {limit}, planned peak {format_bytes(self.planned_peak)}, measured "
                f"{format_bytes(self.measured_peak)}, of which {format_bytes(self.existing)} "
                f"existed before the step and {format_bytes(self.outside)} were taken outside"
                f"{moved}")


def outside_room(outside_bytes: int, parts: int = 4) -> int:
    """Bytes to leave where so many were taken: some more, as that differs a little from step to
    step, and each change asks for other plans. By at most one of so many ``parts``, a power of two,
    or 4 KiB."""
    taken = max(0, outside_bytes)
    unit = max(4096, 1 << max(0, taken.bit_length() - parts.bit_length()))
    return -(-taken // unit) * unit


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """What tensors hold, each storage once."""
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
                for tensor in counted_parts(tensors)}
    return sum(storages.values())
