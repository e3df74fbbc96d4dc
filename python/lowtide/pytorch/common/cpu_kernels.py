"""Which devices run the CPU's kernels."""

from __future__ import annotations

import torch

_TYPES = {"cpu"}


def add_type_with_cpu_kernels(type: str) -> None:
    """From now on results of this device type are laid out and rounded as those of the CPU."""
    _TYPES.add(type)


def has_cpu_kernels(device: torch.device) -> bool:
    return device.type in _TYPES
