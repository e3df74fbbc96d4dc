"""Models that are larger than this machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from lowtide import InputError


def shapes_only() -> FakeTensorMode:
    """A context in which tensors have shapes and dtypes, and no memory.

    A model of any size can be made in it, and with inputs that are made in it, too, ``capture``
    writes its step, on a machine that could not hold its parameters:

        with lowtide.shapes_only():
            model, tokens = Huge(), torch.zeros(8, 4096, dtype=torch.long)
        graph = lowtide.capture(model, tokens)

    What depends on the values of a tensor cannot be computed in it.
    """
    return FakeTensorMode(allow_non_fake_inputs=True)


def require_kernels(model: Callable, arguments: tuple, named: Mapping, name: str) -> None:
    """Raises InputError for tensors on the device ``meta``: PyTorch has other ops for it than for a
    device that computes, some without gradients."""
    held = (itertools.chain(model.parameters(), model.buffers())
            if isinstance(model, torch.nn.Module) else ())
    for tensor in itertools.chain(held, pytree.tree_leaves((arguments, dict(named)))):
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "meta":
            raise InputError(f"{name} is on the device meta, for which PyTorch lacks some gradients. "
                             f"To capture a step without its memory, make the model and its inputs "
                             f"on the CPU within lowtide.shapes_only()")
