"""Which devices run the CPU's kernels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils import _pytree as pytree

_TYPES = {"cpu"}


def add_type_with_cpu_kernels(type: str) -> None:
    """From now on results of this device type are laid out and rounded as those of the CPU."""
    if len(_TYPES) == 1:
        _choose_convolutions_as_on_the_cpu()
    _TYPES.add(type)


def has_cpu_kernels(device: torch.device) -> bool:
    return device.type in _TYPES


def _choose_convolutions_as_on_the_cpu() -> None:
    """PyTorch's fake tensors ask these two how a convolution lays out its result, and are told
    "contiguous" of every device that is not PyTorch's own."""
    for name in ("_select_conv_backend", "_conv_determine_backend_memory_format"):
        setattr(torch._C, name, _of_twins(getattr(torch._C, name)))


def _of_twins(choose: Callable) -> Callable:
    """Asks with tensors on the CPU in the place of those on a device that runs its kernels."""
    def twin(tensor):
        if tensor.device.type == "cpu" or not has_cpu_kernels(tensor.device):
            return tensor
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")

    def chosen(*args, **kwargs):
        args, kwargs = pytree.tree_map_only(torch.Tensor, twin, (args, kwargs))
        return choose(*args, **kwargs)

    return chosen
