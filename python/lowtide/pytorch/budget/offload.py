"""The slower memory to which values may move, as a person names it."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Iterable

import torch

from ... import InputError, _core, _runtime

#: Stands for the host's memory, where a device has its own.
HOST = "host"

_MICROSECOND = 1e-6


@dataclasses.dataclass(frozen=True)
class Offload:
    """Where values may move that do not fit: ``to`` is a folder on a disk, or ``"host"`` for a
    model on a device with memory of its own.

    ``bandwidth`` and ``latency``: how fast the planner takes copies to be, such as ``"2GB/s"``, or
    ``"2GB/s,1.6GB/s"`` for out and in, and microseconds that each copy takes beside its bytes.
    Without a bandwidth that is measured, once for each disk and device. ``optimizer_state``:
    whether the state of the optimizer lies there between two steps and comes back in pieces while
    it steps; None: where a step does not fit otherwise, or takes longer. ``parameters``: whether
    parameters may lie there from a forward pass to the end of its backward pass, and in memory
    only around the ops that read them. ``disk``: a second place beside the host's memory: a folder
    on a disk, or an ``Offload`` with its bandwidth, and ``disk_budget`` how many bytes may lie
    there, as ``offload_budget`` of ``wrap`` limits the host's. Raises InputError.
    """

    to: str | os.PathLike[str]
    bandwidth: str | None = None
    latency: float = 0.0
    optimizer_state: bool | None = None
    parameters: bool = False
    disk: Offload | str | os.PathLike[str] | None = None
    disk_budget: int | str | None = None

    def __post_init__(self):
        if not isinstance(self.to, (str, os.PathLike)) or not os.fspath(self.to):
            raise InputError(f"values move to \"host\" or to a folder, not to {self.to!r}: give "
                             f"offload=\"host\", offload=\"/path/to/folder\", or a lowtide.Offload")
        is_number = isinstance(self.latency, numbers.Real) and not isinstance(self.latency, bool)
        if not is_number or not 0 <= self.latency < math.inf:
            raise InputError(f"latency must be microseconds, 0 or more, not {self.latency!r}")
        if self.latency and self.bandwidth is None:
            raise InputError("latency needs a bandwidth: without one both are measured")
        if self.bandwidth is not None:
            _bandwidths(self.bandwidth)
        if not any(self.optimizer_state is choice for choice in (None, True, False)):
            raise InputError(f"optimizer_state must be True, False or None, not "
                             f"{self.optimizer_state!r}")
        if not any(self.parameters is choice for choice in (True, False)):
            raise InputError(f"parameters must be True or False, not {self.parameters!r}")
        self._require_second_place()
        if not self.is_host:
            # The folder that is named now: a program may change its own before the first step.
            object.__setattr__(self, "to", os.path.abspath(os.fsdecode(self.to)))
            _runtime.SlowerMemory.disk(self.folder)  # refuses one that cannot be used

    @staticmethod
    def parse(given: Offload | str | os.PathLike[str] | None) -> Offload | None:
        return given if given is None or isinstance(given, Offload) else Offload(given)

    def _require_second_place(self) -> None:
        """Raises InputError where ``disk`` and its budget are of no use."""
        second = self.second
        if second is None and self.disk_budget is not None:
            raise InputError("disk_budget needs disk, a folder; the limit of the place that \"to\" "
                             "names is offload_budget")
        if second is None:
            return
        if not self.is_host:
            raise InputError(f"disk is a second place beside the host's memory, and values move to "
                             f"{self.to!r} already: give one folder alone, or "
                             f"lowtide.Offload(\"host\", disk={second.to!r})")
        if second.is_host:
            raise InputError("disk is a folder on a disk, not the host's memory")
        if second != Offload(second.to, second.bandwidth, second.latency):
            raise InputError("of an Offload as disk, bandwidth and latency count: give the others "
                             "to the Offload of the host's memory")
        slower_limit(self.disk_budget, "disk_budget")
        object.__setattr__(self, "disk", second)

    @property
    def second(self) -> Offload | None:
        """The second place, if there is one."""
        return Offload.parse(self.disk)

    @property
    def disk_limit(self) -> int | None:
        """Bytes that may lie on the disk; None for what is free."""
        return slower_limit(self.disk_budget, "disk_budget")

    @property
    def is_host(self) -> bool:
        return self.to == HOST

    @property
    def folder(self) -> str:
        return os.fspath(self.to)

    @property
    def speed(self) -> _core.Speed | None:
        """As given; None: it is to be measured."""
        if self.bandwidth is None:
            return None
        out, back = _bandwidths(self.bandwidth)
        seconds = self.latency * _MICROSECOND
        return (seconds, out), (seconds, back), False


def require_memory_of_their_own(parameters: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Of parameters that may move: each moves alone. Raises InputError for one that lies in the
    memory of another, or of a larger tensor."""
    names: dict[int, str] = {}
    for name, parameter in parameters:
        if parameter.layout != torch.strided or torch.nn.parameter.is_lazy(parameter):
            continue
        storage = parameter.untyped_storage()
        other = names.setdefault(storage._cdata, name)
        if other == name and storage.nbytes() == parameter.nbytes:
            continue
        where = (f"in the memory of \"{other}\"" if other != name else
                 "in a part of the memory of another tensor")
        raise InputError(
            f"parameters=True of lowtide.Offload: \"{name}\" lies {where}, and a parameter moves "
            f"alone: give it memory of its own (parameter.data = parameter.data.clone()); where "
            f"both are to have the same numbers, make them one nn.Parameter; or leave "
            f"parameters=True out")


def slower_limit(given: int | str | None, option: str = "offload_budget") -> int | None:
    """Bytes of slower memory at most, of a number or a text such as ``"50GiB"``. Raises
    InputError that names the option."""
    if given is None:
        return None
    is_number = isinstance(given, numbers.Integral) and not isinstance(given, bool)
    if is_number or isinstance(given, str):
        try:
            limit = _core.Budget(str(given)).bytes
        except InputError:
            limit = None
        if limit:
            return limit
    raise InputError(f"{option} is a number of bytes, a text such as \"50GiB\", or None, not "
                     f"{given!r}")


def _bandwidths(text: str) -> tuple[float, float]:
    """Bytes per second, out and in."""
    parts = text.split(",") if isinstance(text, str) else []
    try:
        rates = [_core.Budget(part.strip().removesuffix("/s")).bytes for part in parts
                 if part.strip().endswith("/s")]
    except InputError:
        rates = []
    if len(rates) != len(parts) or len(rates) not in (1, 2) or not all(rates):
        raise InputError(f"bandwidth must be such as \"2GB/s\", or \"2GB/s,1.6GB/s\" for out and "
                         f"in, not {text!r}")
    return float(rates[0]), float(rates[-1])
