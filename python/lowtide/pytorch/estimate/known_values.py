"""What small tensors of a step hold, where that follows from the batch and the model's code.

Models ask for it: whether a mask masks anything, how long a text is. A step on fake tensors cannot
say. So ops whose tensors are known are computed, too. What depends on parameters or on random
numbers is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakTensorKeyDictionary

from ..common.inputs import tensors_in

_aten = torch.ops.aten
#: What tensors hold is known up to this size, which a mask of padding does not reach, or where they
#: hold one number throughout.
MOST_KNOWN_BYTES = 8 << 20

#: What they give does not depend on what the tensor holds.
_OF_SHAPES = {_aten.zeros_like.default, _aten.ones_like.default, _aten.full_like.default,
              _aten.empty_like.default, _aten.new_zeros.default, _aten.new_ones.default,
              _aten.new_full.default, _aten.new_empty.default}
#: Random numbers from 0 up to 1, and what is asked of one, such as whether a layer is left out.
_RANDOM = {_aten.rand.default}
_COMPARISONS = {_aten.lt.Scalar, _aten.le.Scalar, _aten.gt.Scalar, _aten.ge.Scalar}
_BELOW_ONE = 1 - 2.0**-24
#: Ops that take a mask as the indices where it is true.
_BY_INDEX = {_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default,
             _aten._unsafe_index.Tensor, _aten._unsafe_index_put.default}


def may_be_known(tensor: torch.Tensor) -> bool:
    """Whether it has numbers, and few enough of them."""
    return (not isinstance(tensor, torch._subclasses.FakeTensor) and not tensor.is_meta
            and not tensor.is_quantized and not tensor.requires_grad and _is_small([tensor]))


class KnownValues:
    """Follows a step, op by op. ``pairs``: fake tensors with those that they stand for, which stay
    as they are."""

    def __init__(self, pairs: Iterable[tuple[torch.Tensor, torch.Tensor]]):
        self._values = WeakTensorKeyDictionary()
        self._random = WeakTensorKeyDictionary()
        for fake, real in pairs:
            self._values[fake] = _copy_of(real)

    def follow(self, op: torch._ops.OpOverload, arguments: tuple, named: dict,
               result: object) -> None:
        """After the op ran on fake tensors."""
        made = tensors_in(result)
        if op in _RANDOM and all(tensor.numel() == 1 for tensor in made):
            self._random.update({tensor: True for tensor in made})
            return
        values = _of_finite_numbers(op, arguments)
        if values is None:
            values = (self._computed(op, arguments, named) if _is_small(made) else
                      self._one_number(op, arguments, named, made))
        if values is None:
            self._forget_what_is_written(op, arguments, named)
        else:
            self._values.update(dict(zip(made, tensors_in(values), strict=True)))

    def answer(self, op: torch._ops.OpOverload, arguments: tuple, named: dict) -> Any:
        """The result of an op that depends on values, on fake tensors; None where these are not
        known."""
        if op in _BY_INDEX:
            indices = self._without_masks(arguments[1])
            return None if indices is None else op(arguments[0], indices, *arguments[2:], **named)
        values = self._computed(op, arguments, named)
        if values is None:
            return None
        device = tensors_in((arguments, named))[0].device

        def fake(value):
            if not isinstance(value, torch.Tensor):
                return value
            tensor = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                         device=device)
            self._values[tensor] = value
            return tensor

        return pytree.tree_map(fake, values)

    def _computed(self, op, arguments, named) -> Any:
        """What the op gives, in place where it is; None where that is not known."""
        given = tensors_in((arguments, named))
        if op in _COMPARISONS and given[0] in self._random:
            return self._compared(op, arguments, named)
        if torch.Tag.nondeterministic_seeded in op.tags:
            return None
        find = _shape_alone if op in _OF_SHAPES else self._value
        reals = {id(tensor): find(tensor) for tensor in given}
        if any(real is None for real in reals.values()):
            return None
        arguments, named = pytree.tree_map(lambda leaf: reals.get(id(leaf), leaf),
                                           (arguments, named))
        return _run(op, arguments, named)

    def _one_number(self, op, arguments, named, made) -> torch.Tensor | None:
        """What an op gives that takes each element by itself, where each is the same number."""
        if torch.Tag.pointwise not in op.tags or op._schema.is_mutable:
            return None
        numbers = {}
        for tensor in tensors_in((arguments, named)):
            value = self._values.get(tensor)
            if value is None or any(value.stride()):
                return None
            with _disable_current_modes():
                numbers[id(tensor)] = value.as_strided((), ())
        arguments, named = pytree.tree_map(lambda leaf: numbers.get(id(leaf), leaf),
                                           (arguments, named))
        number = _run(op, arguments, named)
        return None if number is None or len(made) != 1 else _throughout(made[0].shape, number)

    def _value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        if tensor in self._values:
            return self._values[tensor]
        return _copy_of(tensor) if may_be_known(tensor) else None

    def _compared(self, op, arguments, named) -> torch.Tensor | None:
        """Where it is the same for the least and for the largest of the numbers."""
        random, *others = arguments
        shape, dtype = tuple(random.shape), random.dtype
        least, largest = (_run(op, (_filled(shape, dtype, end), *others), named)
                          for end in (0.0, _BELOW_ONE))
        with _disable_current_modes():
            return least if torch.equal(least, largest) else None

    def _without_masks(self, indices) -> list | None:
        """Indices on fake tensors; None where a mask is not known."""
        found: list = []
        for index in indices:
            if not isinstance(index, torch.Tensor) or index.dtype not in (torch.bool, torch.uint8):
                found.append(index)
                continue
            mask = self._value(index)
            if mask is None:
                return None
            with _disable_current_modes():
                places = mask.nonzero(as_tuple=True)
            found += [torch.empty(place.shape, dtype=place.dtype, device=index.device)
                      for place in places]
        return found

    def _forget_what_is_written(self, op, arguments, named) -> None:
        """With all that shares its memory."""
        if not op._schema.is_mutable:
            return
        for tensor in tensors_in((arguments, named)):
            self._random.pop(tensor, None)
            value = self._values.get(tensor)
            if value is None:
                continue
            memory = value.untyped_storage().data_ptr()
            for other, held in list(self._values.items()):
                if held.untyped_storage().data_ptr() == memory:
                    del self._values[other]


def _of_finite_numbers(op, arguments) -> torch.Tensor | None:
    """Whether numbers are finite: those of a step are."""
    if op in (_aten.isnan.default, _aten.isinf.default):
        answer = False
    elif op in (_aten.eq.Tensor, _aten.ne.Tensor) and arguments[0] is arguments[1]:
        answer = op is _aten.eq.Tensor
    elif op in (_aten.eq.Scalar, _aten.ne.Scalar) and math.isinf(arguments[1]):
        answer = op is _aten.ne.Scalar
    else:
        return None
    return _throughout(arguments[0].shape, _filled((), torch.bool, answer))


def _throughout(shape: Sequence[int], number: torch.Tensor) -> torch.Tensor:
    """A tensor of the shape, which takes the memory of one number."""
    with _disable_current_modes():
        return number.expand(tuple(shape))


def _is_small(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether they lie in memory element by element, and do not take much."""
    return all(tensor.layout == torch.strided for tensor in tensors) and sum(
        tensor.numel() * tensor.itemsize for tensor in tensors) <= MOST_KNOWN_BYTES


def _copy_of(tensor: torch.Tensor) -> torch.Tensor:
    with _disable_current_modes():
        return tensor.detach().cpu().clone()


def _shape_alone(tensor: torch.Tensor) -> torch.Tensor:
    with _disable_current_modes():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _filled(shape: tuple[int, ...], dtype: torch.dtype, number: float) -> torch.Tensor:
    with _disable_current_modes():
        return torch.full(shape, number, dtype=dtype)


def _run(op: Callable, arguments: tuple, named: dict) -> Any:
    """On the CPU; None where it refuses what the tensors hold, as it may on another device."""
    named = {name: torch.device("cpu") if isinstance(value, torch.device) else value
             for name, value in named.items() if name != "pin_memory"}
    with _disable_current_modes(), torch.no_grad():
        try:
            return op(*arguments, **named)
        except Exception:
            return None
