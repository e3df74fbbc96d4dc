"""Runs an optimizer on small parameters, and measures its state and its temporaries."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import _runtime
from ..common.local_tensor import counted_part, counted_parts
from ..common.one_trace import ONE_TRACE_AT_A_TIME

#: The largest of the parameters that an optimizer is tried with, in bytes.
_TRIED_BYTES = 1 << 18
#: What a parameter is to each group, and what schedulers note: not options of the class.
_NOT_OPTIONS = {"params", "param_names", "initial_lr"}

#: Of the option ``history_size``: what an optimizer holds grows by as much with each entry.
_TRIED_HISTORY = 2
#: So many steps fill that history, and let a line search take its ways.
_STEPS_WITH_CLOSURE = 12
#: The largest parameter then, in bytes, as each of these steps is many.
_TRIED_BYTES_WITH_CLOSURE = 1 << 14

#: What is raised where a trial has no memory, which is the user's to know.
OUT_OF_MEMORY = (MemoryError, torch.OutOfMemoryError)

#: Parameters, and the options that they are trained with.
Group = tuple[Sequence[torch.Tensor], Mapping]


@dataclasses.dataclass(frozen=True)
class Trial:
    """Bytes that an optimizer holds between two steps, or while the closure of its step trains, and
    that it takes for a while in a step."""

    state_bytes: int
    step_bytes: int


def groups_of(optimizer: torch.optim.Optimizer) -> list[Group]:
    return [(counted_parts(group["params"]), options_of(group))
            for group in optimizer.param_groups]


def options_of(group: Mapping) -> dict:
    """Of a group of an optimizer, a number for each tensor of one element, such as ``lr``."""
    with _disable_current_modes():  # in which a tensor may have no memory
        return {key: value.item() if isinstance(value, torch.Tensor) and value.numel() == 1
                else value for key, value in group.items() if key not in _NOT_OPTIONS}


def make_optimizer(kind: type, groups: Sequence[Group]) -> Any:
    """One of the class. What the class requires beside parameters is what its groups have."""
    known = dict(groups[0][1]) if groups else {}
    required = [name for name, parameter in list(inspect.signature(kind).parameters.items())[1:]
                if parameter.default is inspect.Parameter.empty and name in known]
    return kind([{"params": list(parameters), **options} for parameters, options in groups],
                **{name: known[name] for name in required})


def trial(kind: type, groups: Sequence[Group], device: str = "cpu", smaller_by: int = 1) -> Trial:
    """Of an optimizer of the class ``kind`` on the device. It is tried on parameters in the same
    order that are smaller by one factor, ``smaller_by`` or more, by which the result is multiplied.
    One whose step wants a closure is tried with gradients at random. Raises what the class raises:
    one of somebody else's may want other arguments.
    """
    largest = max((parameter.nbytes for parameters, _ in groups for parameter in parameters),
                  default=0)
    if not largest:
        return Trial(0, 0)
    tried_bytes = _TRIED_BYTES_WITH_CLOSURE if wants_closure(kind) else _TRIED_BYTES
    factor = max(smaller_by, -(-largest // tried_bytes))

    def make() -> Any:
        return make_optimizer(kind, [
            ([_smaller(parameter, factor, device) for parameter in parameters],
             _as_tried(kind, options))
            for parameters, options in groups])

    with _untraced(), torch.enable_grad():
        tried = (_with_history(make, device) if wants_closure(kind)
                 else _without_closure(make(), device))
    return Trial(factor * tried.state_bytes, factor * tried.step_bytes)


def wants_closure(kind: type) -> bool:
    """Whether the step of the class runs the model itself, as LBFGS does."""
    closure = inspect.signature(kind.step).parameters.get("closure")  # type: ignore[attr-defined]
    return closure is not None and closure.default is inspect.Parameter.empty


def _as_tried(kind: type, options: Mapping) -> Mapping:
    """Without a rate that may be too small for a line search to fill the history soon."""
    return ({key: value for key, value in options.items() if key != "lr"} if wants_closure(kind)
            else options)


def _without_closure(optimizer: torch.optim.Optimizer, device: str) -> Trial:
    optimizer.step()  # makes its state
    _runtime.reset_peaks(device)
    before = _runtime.taken_bytes(device)
    optimizer.step()
    return Trial(state_bytes(optimizer), _runtime.taken_peak_bytes(device) - before)


def _with_history(make: Callable[[], Any], device: str) -> Trial:
    """With as long a history as the optimizer is to have."""
    history = max(group.get("history_size", 0) for group in make().param_groups)
    if history <= _TRIED_HISTORY:
        return _with_closure(make(), device)
    shorter, longer = (_with_closure(make(), device, history_size=tried)
                       for tried in (_TRIED_HISTORY - 1, _TRIED_HISTORY))
    entry_bytes = longer.state_bytes - shorter.state_bytes
    return Trial(longer.state_bytes + (history - _TRIED_HISTORY) * entry_bytes, longer.step_bytes)


def _with_closure(optimizer: torch.optim.Optimizer, device: str, **options) -> Trial:
    """``options``: instead of those of the optimizer's groups."""
    for group in optimizer.param_groups:
        group.update(options)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = random.Random(0)
    loss = torch.zeros((), device=device)
    held = [0]
    _runtime.reset_peaks(device)
    before = _runtime.taken_bytes(device)

    def closure() -> torch.Tensor:
        held.append(_runtime.taken_bytes(device) - before)
        for parameter in parameters:
            parameter.grad.fill_(numbers.uniform(-1, 1))
        return loss.fill_(numbers.uniform(-1, 1))

    for _ in range(_STEPS_WITH_CLOSURE):
        optimizer.step(closure)
    peak = _runtime.taken_peak_bytes(device) - before
    return Trial(max(held), peak - max(held))


@contextlib.contextmanager
def _untraced() -> Iterator[None]:
    """Graphs are planned while PyTorch traces: in modes in which no tensor has memory, and with a
    flag by which optimizers step as they would within a compiled function. Here all is as it will
    be when the optimizer steps."""
    with ONE_TRACE_AT_A_TIME:
        compiling = torch.compiler._is_compiling_flag
        torch.compiler._is_compiling_flag = False
        try:
            with _disable_current_modes():
                yield
        finally:
            torch.compiler._is_compiling_flag = compiling


def state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Of the tensors that it holds now, wherever they are."""
    if hasattr(optimizer.state, "nbytes"):  # a part of it is in slower memory
        return optimizer.state.nbytes
    return sum(_tensor_bytes(state) for state in optimizer.state.values())


def _tensor_bytes(value: object) -> int:
    """On this rank, of a tensor, or of all in a collection of them."""
    if isinstance(value, torch.Tensor):
        return counted_part(value).nbytes
    if isinstance(value, Mapping):
        return _tensor_bytes(list(value.values()))
    return sum(map(_tensor_bytes, value)) if isinstance(value, (list, tuple, deque)) else 0


def _smaller(parameter: torch.Tensor, factor: float, device: str) -> torch.nn.Parameter:
    """With a gradient."""
    shape = list(parameter.shape)
    for dim in sorted(range(len(shape)), key=shape.__getitem__, reverse=True):
        smaller = math.ceil(shape[dim] / factor)
        factor = max(1, factor * smaller / max(1, shape[dim]))
        shape[dim] = smaller
    made = torch.nn.Parameter(torch.ones(shape, dtype=parameter.dtype, device=device))
    made.grad = torch.ones_like(made)
    return made
