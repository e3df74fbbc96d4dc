"""Integers that an op makes below a limit which is known from its arguments alone."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import torch
from torch import fx

from .forms import narrow, window_places
from .stash import Form

_aten = torch.ops.aten

#: Pooling over windows of one size: the number of dimensions of a window.
_WINDOWED = {_aten.max_pool2d_with_indices.default: 2, _aten.max_pool3d_with_indices.default: 3}

#: Pooling over windows of several sizes: the number of dimensions of the plane that is indexed.
_PLANES = {_aten.adaptive_max_pool2d.default: 2, _aten.adaptive_max_pool3d.default: 3,
           _aten.fractional_max_pool2d.default: 2, _aten.fractional_max_pool3d.default: 3}

#: Ops whose second result indexes one dimension of the first argument: the position of the argument
#: that names it, and what it is without one.
_ALONG = {_aten.max.dim: (1, None), _aten.min.dim: (1, None), _aten.median.dim: (1, None),
          _aten.kthvalue.default: (2, -1), _aten.mode.default: (1, -1),
          _aten.topk.default: (2, -1), _aten.sort.default: (1, -1)}

#: Places in a window that a byte tells apart.
_MOST_PLACES = 256


def form_of_indices(value: fx.Node) -> Form | None:
    """How the indices that an op makes as its second result are held; None for other integers."""
    if value.target is not operator.getitem or value.args[1] != 1:
        return None
    op = value.args[0]
    if op.target in _WINDOWED:
        return _of_windows(op, value, _WINDOWED[op.target])
    source = op.args[0].meta["val"]
    if op.target in _PLANES:
        return narrow(math.prod(source.shape[-_PLANES[op.target]:]))
    if op.target in _ALONG and source.dim():
        position, otherwise = _ALONG[op.target]
        dim = op.args[position] if len(op.args) > position else op.kwargs.get("dim", otherwise)
        return narrow(source.shape[dim])
    return None


def _of_windows(op: fx.Node, value: fx.Node, dims: int) -> Form | None:
    plane = op.args[0].meta["val"].shape[-dims:]
    kernel = _each(op, 1, dims, None)
    stride = _each(op, 2, dims, kernel)
    padding, dilation = _each(op, 3, dims, [0] * dims), _each(op, 4, dims, [1] * dims)
    beside = [math.prod(plane[dim + 1:]) for dim in range(dims)]  # indices to the next in a dim
    first = -sum(pad * distance for pad, distance in zip(padding, beside))
    outer = value.meta["val"].dim() - dims
    step = [0] * outer + [size * distance for size, distance in zip(stride, beside)]
    wide = [dim for dim in range(dims) if kernel[dim] > 1]
    unit, sizes = [dilation[dim] * beside[dim] for dim in wide], [kernel[dim] for dim in wide]
    if math.prod(sizes) > _MOST_PLACES or not _are_digits(unit, sizes):
        return narrow(math.prod(plane))
    return window_places(first, step, unit, sizes)


def _are_digits(unit: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether each unit is larger than all that those after it come to. It is not where a window
    with its padding is wider than the plane."""
    beyond = [(size - 1) * distance for distance, size in zip(unit, sizes)]
    return all(distance > sum(beyond[place + 1:]) for place, distance in enumerate(unit))


def _each(op: fx.Node, position: int, dims: int, otherwise: Sequence[int] | None) -> list[int]:
    """An argument for each dimension; one number is for all of them."""
    given = op.args[position] if len(op.args) > position else []
    given = [given] if isinstance(given, int) else list(given)
    return (given * dims if len(given) == 1 else given) or list(otherwise or ())
