"""The precision of a wrapped model: ``torch.autocast`` around its forward pass."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence

import torch
from torch.utils import _pytree as pytree

from ... import InputError
from .notices import warn

#: What a model computes in by the names of ``wrap``; the command line has the same.
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def require_precision(precision: str | None) -> None:
    """Raises InputError for what is neither a name of a lower precision nor None."""
    if precision is not None and not (isinstance(precision, str) and precision in _DTYPES):
        raise InputError(f"precision must be \"bf16\", \"fp16\" or None, not {precision!r}")


def warn_if_slow(precision: str | None, model: torch.nn.Module) -> None:
    """Where the model is on a processor that computes in this precision by widening numbers."""
    if precision is None or _device_type(model, (), {}) != "cpu" or _has_instructions(precision):
        return
    warn(f"this processor has no instructions for {precision}: a step in precision="
         f"\"{precision}\" needs less memory, and takes several times as long as one in float32. "
         f"Where memory alone is short, a smaller budget without precision is faster.")


def _has_instructions(precision: str) -> bool:
    """As oneDNN, by which PyTorch's products and convolutions run, sees the processor. True where
    PyTorch is built without it."""
    name = f"_is_mkldnn_{precision}_supported"
    return not hasattr(torch.ops.mkldnn, name) or getattr(torch.ops.mkldnn, name)()


def in_precision(precision: str | None, model: torch.nn.Module, function: Callable) -> Callable:
    """``function``, which is called as ``model``, in that precision, whatever the caller's is.

    The device is that of the call, as the model may be moved.
    """
    if precision is None:
        return function
    def run(*arguments, **named):
        device_type = _device_type(model, arguments, named)
        # Within another trace the device is known to be one that plans run on.
        if not torch.compiler.is_compiling():
            _require_autocast(device_type, precision)
        with autocast_in(precision, device_type):
            return function(*arguments, **named)

    return run


def autocast_in(precision: str | None,
                device_type: str) -> contextlib.AbstractContextManager[object]:
    """The context in which a model is called in that precision; None is the caller's own.

    PyTorch keeps casts by the weight alone, until the outermost autocast ends: without gradients,
    where a kept cast changes no bits, the model and its caller see none of each other.
    """
    if precision is None:
        return contextlib.nullcontext()
    return torch.autocast(device_type, _DTYPES[precision],
                          cache_enabled=None if torch.is_grad_enabled() else False)


def _device_type(model: torch.nn.Module, arguments: Sequence, named: Mapping) -> str:
    """The model's; of one without parameters and buffers, that of the first tensor it is given."""
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        return tensor.device.type
    for leaf in pytree.tree_leaves((arguments, named)):
        if isinstance(leaf, torch.Tensor):
            return leaf.device.type
    return "cpu"


def _require_autocast(device_type: str, precision: str) -> None:
    if not torch.amp.is_autocast_available(device_type):
        raise InputError(f"PyTorch has no autocast for the device {device_type}, which "
                         f"precision=\"{precision}\" needs: move the model, or leave precision out")
