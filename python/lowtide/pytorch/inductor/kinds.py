"""What code that is compiled of a call depends on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import NamedTuple

import torch
from torch.utils import _pytree as pytree

from ..dynamo.surroundings import surroundings


class CallKind(NamedTuple):
    """Calls of one kind run the same code. ``numbers``: among the arguments, as texts;
    ``others``: all else."""

    others: Hashable
    numbers: tuple[str, ...]


def kind_of_call(model: torch.nn.Module, arguments: Sequence, named: Mapping,
                 gradient_bytes: int) -> CallKind:
    """``gradient_bytes``: that are kept, to be added to."""
    leaves, structure = pytree.tree_flatten((tuple(arguments), dict(named)))
    parameters = tuple((parameter.requires_grad, parameter.dtype, parameter.device)
                       for parameter in model.parameters())
    others = (tuple(type(leaf) if _is_number(leaf) else _kind_of(leaf) for leaf in leaves),
              str(structure), gradient_bytes, parameters,
              _autocast({device.type for _, _, device in parameters}), surroundings(),
              tuple(module.training for module in model.modules()))
    return CallKind(others, tuple(repr(leaf) for leaf in leaves if _is_number(leaf)))


def numbers_by_name(arguments: Sequence, named: Mapping) -> dict[str, float]:
    """Of the arguments of a call, as ``ManyNumbers`` has them."""
    return {f"{name}{pytree.keystr(path)}": leaf
            for name, given in (("arguments", tuple(arguments)), ("named", dict(named)))
            for path, leaf in pytree.tree_flatten_with_path(given)[0] if _is_number(leaf)}


def _is_number(leaf: object) -> bool:
    return isinstance(leaf, (int, float)) and not isinstance(leaf, bool)


def _kind_of(leaf: object) -> Hashable:
    if isinstance(leaf, torch.Tensor):
        return tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad
    return repr(leaf)


def _autocast(device_types: Set[str]) -> frozenset:
    """For which of them it is on, and to which type it casts."""
    return frozenset((kind, torch.get_autocast_dtype(kind)) for kind in device_types
                     if torch.is_autocast_enabled(kind))
