"""Models without memory: on PyTorch's device ``meta``, or for a device that is not here.

PyTorch has other ops for ``meta`` than for a device that computes, some without gradients. So
models are traced as if they were on the device that is to train them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import InputError
from ..common.inputs import tensors_in


def as_on(device: torch.device | None, model: Callable, arguments: tuple,
          named: Mapping) -> tuple[Callable, tuple, Mapping]:
    """Model and arguments; where one of their tensors is not on the device, a copy of them all, of
    shapes and dtypes there. Without a device that is the CPU, for tensors on ``meta``. Raises
    InputError for a model that cannot be copied."""
    held = held_by(model)
    given = tensors_in((arguments, dict(named)))
    elsewhere = [tensor.device for tensor in (*held, *given)
                 if _is_elsewhere(tensor.device, device)]
    if not elsewhere:
        return model, arguments, named
    device = device or torch.device("cpu")
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    copies = fake_copies(mode, (*held, *attributes_of(model), *given), device)
    model = fake_module(mode, model, copies, elsewhere[0], device)
    arguments, named = pytree.tree_map(lambda leaf: copies.get(id(leaf), leaf),
                                       (arguments, dict(named)))
    return model, arguments, named


def fake_copies(mode: FakeTensorMode, tensors: Iterable[torch.Tensor],
                device: torch.device) -> dict[int, torch.Tensor]:
    """By ``id`` of a tensor: one without memory of its shape, strides and dtype on the device."""
    with mode:
        return {id(tensor): _shape_of(tensor, device) for tensor in tensors}


def fake_module(mode: FakeTensorMode, model: Callable, copies: Mapping[int, torch.Tensor],
                where: torch.device, device: torch.device) -> Callable:
    """The module, which is on the device ``where``, with these copies of its tensors; shared ones
    stay shared. What is no module is returned as it is. Raises InputError where it cannot be
    copied."""
    with mode:
        return _copied(model, dict(copies), where, device)


def _is_elsewhere(of_tensor, device):
    return of_tensor.type == "meta" if device is None else of_tensor != device


def held_by(model: Callable) -> list[torch.Tensor]:
    """Parameters and buffers of a module; of what is no module, none."""
    if not isinstance(model, torch.nn.Module):
        return []
    return list(itertools.chain(model.parameters(), model.buffers()))


def attributes_of(model: Callable) -> list[torch.Tensor]:
    """Tensors that modules have as plain attributes."""
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    return [value for module in modules for value in vars(module).values()
            if isinstance(value, torch.Tensor)]


def _shape_of(tensor, device):
    """A tensor like it on the device; within a mode that gives it no memory."""
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(shape, tensor.requires_grad)
    return shape.requires_grad_(tensor.requires_grad)


def _copied(model, copies, where, device):
    if not isinstance(model, torch.nn.Module):
        return model
    try:
        return copy.deepcopy(model, copies)
    except Exception as error:
        advice = (f"register the tensors that it holds as buffers, and make what is no tensor in "
                  f"its forward ({device})" if where == device else
                  f"make it on the device {device}, where it need not be copied")
        raise InputError(f"{type(model).__name__}, on the device {where}, cannot be copied without "
                         f"its memory ({type(error).__name__}: {error}): {advice}") from error
