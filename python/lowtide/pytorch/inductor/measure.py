"""Measures the peak of a training step of a compiled model."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Mapping, Sequence

import torch
from torch._inductor.utils import clone_preserve_strides
from torch.utils import _pytree as pytree

from ... import InputError
from ..common.inputs import tensors_in
from ..common.module_state import unchanged
from ..common.random_numbers import random_numbers_kept
from .counters import counter_of


def peak_of_step(run: Callable, model: torch.nn.Module, arguments: Sequence,
                 named: Mapping) -> int:
    """Bytes that forward and backward take above what is there before, gradients among them, and
    what compiling leaves.

    ``run`` computes what ``model`` does; its loss is the sum of all results that depend on
    something trained. It runs twice, as the first step compiles. Parameters, buffers, gradients,
    attributes of modules and the random numbers are then as before, and of the inputs copies are
    given. Counted is what
    PyTorch's allocator of the step's device gives out in the whole process. Raises InputError where
    nothing is trained, and for tensors on several devices.
    """
    device = step_device(model, arguments, named)
    counter = counter_of(device)
    with unchanged(model), _gradients_apart(model), random_numbers_kept(device):
        given = _copies((arguments, named))
        gc.collect()
        before = counter.taken()
        _step(run, *_copies((arguments, named)))
        model.zero_grad(set_to_none=True)
        with _no_collection():
            counter.forget_peak()
            _step(run, *given)
            return counter.peak() - before


def step_device(model: torch.nn.Module, arguments: Sequence, named: Mapping) -> torch.device:
    """The one on which all tensors of a step lie; numbers of the CPU without a dimension may take
    part. Raises InputError for two."""
    tensors = [*model.parameters(), *model.buffers(), *tensors_in((arguments, named))]
    devices = {tensor.device for tensor in tensors if tensor.dim() or tensor.device.type != "cpu"}
    if len(devices) > 1:
        raise InputError(f"tensors of the step are on {' and '.join(sorted(map(str, devices)))}, "
                         f"and memory is counted on one device: move the model and its inputs to "
                         f"one with .to()")
    return devices.pop() if devices else torch.device("cpu")


def _step(run, arguments, named):
    results = [result for result in tensors_in(run(*arguments, **named)) if result.requires_grad]
    if not results:
        raise InputError("no result of the model depends on something that is trained, so that "
                         "there is no training step; give example inputs of training, in its mode")
    with torch.enable_grad():
        torch.autograd.backward(results, [torch.ones_like(result) for result in results])


@contextlib.contextmanager
def _no_collection():
    """Garbage is collected before and not within: tensors in it that went meanwhile would be
    taken off what is measured."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _gradients_apart(model):
    """Those that are there are put back."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient


def _copies(given):
    """What is traced of a call depends on strides, and on which arguments are one tensor."""
    copies: dict[int, torch.Tensor] = {}

    def copy(value):
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in copies:
            copied = value.detach().clone()
            if copied.stride() != value.stride():  # of one that is expanded, for example
                copied = clone_preserve_strides(value.detach())
            copies[id(value)] = copied.requires_grad_(value.requires_grad)
        return copies[id(value)]

    return pytree.tree_map(copy, given)
