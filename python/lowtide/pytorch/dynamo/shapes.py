"""One compilation for each set of input sizes, where Dynamo leaves sizes open."""

from __future__ import annotations

from collections.abc import Callable

import torch


def is_symbolic(value) -> bool:
    """Whether dynamo left this input's size open."""
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, torch.Tensor) and any(
        isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))


class PerShape:
    """A callable for every size: what ``compile(*inputs)`` makes for the sizes of a call serves all
    calls of these sizes."""

    def __init__(self, compile: Callable):
        self._compile = compile
        self._compiled: dict[tuple, Callable] = {}

    def __call__(self, *inputs):
        key = tuple(_size(value) for value in inputs)
        if key not in self._compiled:
            self._compiled[key] = self._compile(*inputs)
        return self._compiled[key](*inputs)


def _size(value):
    if not isinstance(value, torch.Tensor):
        return value
    return tuple(value.shape), value.stride(), value.dtype, value.requires_grad
