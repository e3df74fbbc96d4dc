"""The storages of a traced step: when each was there, what made it, and what it is."""

from __future__ import annotations

import collections
import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator

import torch


@dataclasses.dataclass(eq=False)
class Holding:
    """A storage while it is or was there. Times count the ops; both ends are included."""

    bytes: int
    part: str  # of the step's memory: "parameters", "activations", ...
    layer: str  # the path of the module that made it; "" outside of all
    kind: str  # the op that made it; "" for what was there before
    born: int
    died: int | None = None


@dataclasses.dataclass(frozen=True)
class Peak:
    """The most bytes, and the time, the op and the part of the step at which they are there."""

    bytes: int = 0
    time: int = 0
    op: str = ""
    phase: str = ""


class Ledger:
    """Holdings of storages that are or were there, and the most bytes at one time."""

    def __init__(self) -> None:
        self.time = 0
        self.bytes = 0
        self.peak = Peak()
        self._live: dict[int, Holding] = {}  # by the storage's identity
        self._dead: list[Holding] = []

    def add(self, tensor: torch.Tensor, part: str, layer: str = "", kind: str = "") -> None:
        """Does nothing for a storage that is known already. Sparse tensors have none: their indices
        and values are tensors of their own."""
        if tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._live:
            return
        holding = Holding(storage.nbytes(), part, layer, kind, self.time)
        self._live[key] = holding
        self.bytes += holding.bytes
        weakref.finalize(storage, self._drop, key).atexit = False

    def _drop(self, key: int) -> None:
        holding = self._live.pop(key)
        holding.died = self.time
        self.bytes -= holding.bytes
        self._dead.append(holding)

    def rename(self, tensors: Iterable[torch.Tensor], part: str) -> None:
        """What these tensors hold is of another part than it seemed when it was made."""
        for tensor in tensors:
            if tensor.layout == torch.strided:
                self.add(tensor, part)
                self._live[tensor.untyped_storage()._cdata].part = part

    def was_there(self, tensor: torch.Tensor, time: int) -> bool:
        """Whether the storage of this tensor is there, and was when so many ops had run."""
        if tensor.layout != torch.strided:
            return False
        holding = self._live.get(tensor.untyped_storage()._cdata)
        return holding is not None and holding.born <= time

    def note(self, bytes: int, op: str, phase: str) -> None:
        """That so many bytes are there at this time."""
        if bytes > self.peak.bytes:
            self.peak = Peak(bytes, self.time, op, phase)

    def forget_peak(self) -> None:
        """The peak, and all that is there no longer."""
        self.peak = Peak()
        self._dead.clear()

    def live(self) -> list[Holding]:
        return list(self._live.values())

    def at_peak(self) -> dict[str, int]:
        """Bytes by part at the peak, workspaces of its op included: they add up to it."""
        time = self.peak.time
        parts = sum_by(lambda holding: holding.part, (
            holding for holding in self._all()
            if holding.born <= time and (holding.died is None or holding.died >= time)))
        workspace = self.peak.bytes - sum(parts.values())
        return parts | {"workspace": workspace} if workspace else parts

    def _all(self) -> Iterator[Holding]:
        yield from self._dead
        yield from self._live.values()


def sum_by(name: Callable[[Holding], str], holdings: Iterable[Holding]) -> dict[str, int]:
    """Bytes by name; names without bytes are left out."""
    sums: collections.Counter[str] = collections.Counter()
    for holding in holdings:
        if holding.bytes:
            sums[name(holding)] += holding.bytes
    return dict(sums)
