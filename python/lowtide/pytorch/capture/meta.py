"""Models without memory, on PyTorch's device ``meta``.

PyTorch has other ops for that device than for one that computes, some without gradients. So they
are traced as if they were on the CPU.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import InputError


def as_on_the_cpu(model: Callable, arguments: tuple,
                  named: Mapping) -> tuple[Callable, tuple, Mapping]:
    """Model and arguments; where one of their tensors is on ``meta``, a copy of them all, of shapes
    and dtypes on the CPU. Raises InputError for a model that cannot be copied."""
    held = _held_by(model)
    given = [leaf for leaf in pytree.tree_leaves((arguments, dict(named)))
             if isinstance(leaf, torch.Tensor)]
    if not any(tensor.device.type == "meta" for tensor in (*held, *given)):
        return model, arguments, named
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        copies = {id(tensor): _shape_of(tensor) for tensor in (*held, *given)}
    with mode:
        model = _copied(model, copies)
    arguments, named = pytree.tree_map(lambda leaf: copies.get(id(leaf), leaf),
                                       (arguments, dict(named)))
    return model, arguments, named


def _held_by(model):
    if not isinstance(model, torch.nn.Module):
        return []
    return list(itertools.chain(model.parameters(), model.buffers()))


def _shape_of(tensor):
    """A tensor like it on the CPU; within a mode that gives it no memory."""
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(shape, tensor.requires_grad)
    return shape.requires_grad_(tensor.requires_grad)


def _copied(model, copies):
    """The module with these copies of its tensors, by identity; shared ones stay shared."""
    if not isinstance(model, torch.nn.Module):
        return model
    try:
        return copy.deepcopy(model, copies)
    except Exception as error:
        raise InputError(f"{type(model).__name__} is on the device meta, and cannot be copied to "
                         f"be traced as on the CPU ({type(error).__name__}: {error}): make it on "
                         f"the CPU") from error
