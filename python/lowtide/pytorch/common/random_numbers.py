"""Random numbers that a program draws as though nothing had been drawn in between."""

from __future__ import annotations

import contextlib

import torch


def random_numbers_kept(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """A context behind which the generators of the CPU and of the device are as before it."""
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(devices=[device.index or 0], device_type=device.type)
