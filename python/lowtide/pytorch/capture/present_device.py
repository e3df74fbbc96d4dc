"""A device by its name, if PyTorch has it here."""

from __future__ import annotations

import torch

from ... import InputError


def present_device(name: str | torch.device) -> torch.device:
    """With its index, as tensors there have it. Raises InputError for what is no device that
    computes, and for one that PyTorch lacks here."""
    try:
        device = torch.device(name)
        first = torch.device(device.type, device.index or 0)
    except (RuntimeError, TypeError):
        raise InputError(f"{name!r} is no device: write cpu or cuda.") from None
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(_no_cuda())
    if device.type == "meta" or not _is_present(device.type):
        raise InputError(f"PyTorch computes nothing on the device {device} here.")
    return first


def _is_present(type):
    if type == "cuda":  # may be there for tracing alone
        return True
    try:
        torch.empty(0, device=type)
    except Exception:  # what a backend raises that is not there is not agreed upon
        return False
    return True


def _no_cuda():
    if torch.version.cuda or torch.version.hip:
        return ("This PyTorch was built for GPUs and finds none. Without one, a build for CPUs can "
                "capture for a GPU: see `python -m lowtide capture --help`.")
    return ("PyTorch has no CUDA here. `python -m lowtide capture MODULE:FUNCTION -o FILE --device "
            "cuda --like h100` captures for a GPU without one; a program cannot, as that must be "
            "said before torch is imported.")
