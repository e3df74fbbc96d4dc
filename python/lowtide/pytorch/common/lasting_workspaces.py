"""Workspaces that libraries of a device take once for each thread and keep: cuBLAS on a GPU."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import _runtime

#: That of forward passes, and the one of autograd for the device.
_THREADS = 2


def lasting_bytes(device: str) -> int:
    """What a training step on the device has of them from its beginning."""
    if torch.device(device).type != "cuda":
        return 0
    return _THREADS * _runtime.lasting_bytes(device)


def take_lasting_workspaces(device: str) -> None:
    """Has both threads take them now, so that they are there before the first step and no part of
    what it is seen to take."""
    if lasting_bytes(device) == 0:
        return
    _runtime.take_lasting(device)
    with _disable_current_modes(), torch.inference_mode(False), torch.enable_grad():
        _InBackward.apply(torch.zeros((), device=device, requires_grad=True)).backward()


class _InBackward(torch.autograd.Function):
    """Nothing, whose backward pass takes them."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        _runtime.take_lasting(str(gradient.device))
        return gradient
