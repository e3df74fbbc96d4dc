"""Bytes that PyTorch's allocator of a device has given out, in the whole process."""

from __future__ import annotations

from typing import Protocol

import torch

from ... import _runtime


class Counter(Protocol):
    """Of one device. Each figure is of the time when all work that was given to it is done."""

    def taken(self) -> int: ...
    def now(self) -> int:
        """As ``taken``, without waiting."""

    def peak(self) -> int:
        """Since the last ``forget_peak()``."""

    def forget_peak(self) -> None: ...


def counter_of(device: torch.device) -> Counter:
    return _Cpu() if device.type == "cpu" else _Accelerator(device)


class _Cpu:
    """PyTorch counts nothing on the CPU; Lowtide does, from the first figure on."""

    def taken(self) -> int:
        return _runtime.taken_bytes()

    def now(self) -> int:
        return _runtime.taken_bytes()

    def peak(self) -> int:
        return _runtime.taken_peak_bytes()

    def forget_peak(self) -> None:
        _runtime.reset_peaks()


class _Accelerator:
    """The counters of the device's own allocator."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def taken(self) -> int:
        torch.accelerator.synchronize(self._device)
        return self.now()

    def now(self) -> int:
        return torch.accelerator.memory_allocated(self._device)

    def peak(self) -> int:
        torch.accelerator.synchronize(self._device)
        return torch.accelerator.max_memory_allocated(self._device)

    def forget_peak(self) -> None:
        torch.accelerator.synchronize(self._device)
        torch.accelerator.reset_peak_memory_stats(self._device)
