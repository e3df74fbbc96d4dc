"""Whether a Lightning training may lose its old gradients before Lightning itself clears them."""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import torch


def may_clear_early(trainer: Any, pl_module: Any, hooks_of: type, callback_hooks_of: type) -> bool:
    """Whether nobody sees that ``.grad`` is None from the forward pass of a training step on, and
    not only from the backward pass on.

    ``hooks_of`` and ``callback_hooks_of``: Lightning's own classes of modules and of callbacks.
    Code that Lightning calls in between is looked at: hooks that are overridden, and the code of
    ``training_step`` with the functions that it names. A method of another object is not.
    """
    if not pl_module.automatic_optimization or len(trainer.optimizers) != 1:
        return False
    clears_plainly = not (
        _overrides(pl_module, hooks_of, "optimizer_zero_grad")
        or _overrides(trainer.optimizers[0], torch.optim.Optimizer, "zero_grad"))
    is_watched = _overrides(pl_module, hooks_of, "on_before_zero_grad") or any(
        _overrides(callback, callback_hooks_of, "on_before_zero_grad")
        for callback in trainer.callbacks)
    return clears_plainly and not is_watched and not _reads_gradients(pl_module)


def _overrides(instance: object, base: type, name: str) -> bool:
    return name in vars(instance) or getattr(type(instance), name, None) is not getattr(base, name)


def _reads_gradients(pl_module: Any) -> bool:
    """Whether the code of ``training_step``, or that of a function which it names, names ``grad``.
    Code that cannot be looked at counts as if it did."""
    first = _function(pl_module.training_step)
    if first is None:
        return True
    seen, waiting = {first}, [first]
    while waiting:
        function = waiting.pop()
        names = set(_names(function.__code__))
        if "grad" in names:
            return True
        found = set(_named_functions(function, names, type(pl_module))) - seen
        seen |= found
        waiting += found
    return False


def _function(value: object) -> types.FunctionType | None:
    """The function of Python code that a method, property or function runs, if there is one. A
    decorated function is its decorator's, with the plain one in its closure."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        value = value.__func__
    return value if isinstance(value, types.FunctionType) else None


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
        elif isinstance(constant, str):  # of getattr
            yield constant


def _named_functions(function: types.FunctionType, names: set[str],
                     owner: type) -> Iterator[types.FunctionType]:
    """The user's functions that a function may call: methods, those in its closure, globals, and
    those of modules among its globals."""
    values = [inspect.getattr_static(owner, name, None) for name in names]
    values += _closure_of(function)
    for value in [function.__globals__.get(name) for name in names]:
        values.append(value)
        if isinstance(value, types.ModuleType):
            values += [vars(value).get(name) for name in names]
    for found in map(_function, values):
        if found is not None and not _is_of_a_framework(found):
            yield found


def _closure_of(function: types.FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty yet
            yield cell.cell_contents


def _is_of_a_framework(function: types.FunctionType) -> bool:
    """Whether it is PyTorch's or one of Lightning's own methods, which read no gradients before
    the backward pass; Lightning's utilities may."""
    module = function.__module__ or ""
    return module.split(".")[0] == "torch" or module.startswith(
        ("lightning.pytorch.core", "pytorch_lightning.core"))
