"""Models without memory: on PyTorch's device ``meta``, or for a device that is not here.

PyTorch has other ops for ``meta`` than for a device that computes, some without gradients. So
models are traced as if they were on the device that is to train them.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import InputError


def as_on(device: torch.device | None, model: Callable, arguments: tuple,
          named: Mapping) -> tuple[Callable, tuple, Mapping]:
    """Model and arguments; where one of their tensors is not on the device, a copy of them all, of
    shapes and dtypes there. Without a device that is the CPU, for tensors on ``meta``. Raises
    InputError for a model that cannot be copied."""
    held = _held_by(model)
    given = [leaf for leaf in pytree.tree_leaves((arguments, dict(named)))
             if isinstance(leaf, torch.Tensor)]
    elsewhere = [tensor.device for tensor in (*held, *given)
                 if _is_elsewhere(tensor.device, device)]
    if not elsewhere:
        return model, arguments, named
    device = device or torch.device("cpu")
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        copies = {id(tensor): _shape_of(tensor, device) for tensor in (*held, *given)}
    with mode:
        model = _copied(model, copies, elsewhere[0], device)
    arguments, named = pytree.tree_map(lambda leaf: copies.get(id(leaf), leaf),
                                       (arguments, dict(named)))
    return model, arguments, named


def _is_elsewhere(of_tensor, device):
    return of_tensor.type == "meta" if device is None else of_tensor != device


def _held_by(model):
    if not isinstance(model, torch.nn.Module):
        return []
    return list(itertools.chain(model.parameters(), model.buffers()))


def _shape_of(tensor, device):
    """A tensor like it on the device; within a mode that gives it no memory."""
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(shape, tensor.requires_grad)
    return shape.requires_grad_(tensor.requires_grad)


def _copied(model, copies, where, device):
    """The module with these copies of its tensors, by identity; shared ones stay shared."""
    if not isinstance(model, torch.nn.Module):
        return model
    try:
        return copy.deepcopy(model, copies)
    except Exception as error:
        raise InputError(f"{type(model).__name__} is on the device {where}, and cannot be copied "
                         f"to be traced as on {device} ({type(error).__name__}: {error}): make it "
                         f"on the device {device}") from error
