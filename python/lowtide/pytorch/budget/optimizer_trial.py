"""Runs an optimizer on small parameters, and measures its state and its temporaries."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import _runtime
from ..common.local_tensor import counted_part, counted_parts
from ..common.one_trace import ONE_TRACE_AT_A_TIME

#: The largest of the parameters that an optimizer is tried with, in bytes.
_TRIED_BYTES = 1 << 18
#: What a parameter is to each group, and what changes no memory: not options of the class.
_NOT_OPTIONS = {"params", "param_names", "lr", "initial_lr"}

#: Parameters, and the options that they are trained with.
Group = tuple[Sequence[torch.Tensor], Mapping]


@dataclasses.dataclass(frozen=True)
class Trial:
    """Bytes that an optimizer holds between two steps, and that it takes for a while in a step."""

    state_bytes: int
    step_bytes: int


def groups_of(optimizer: torch.optim.Optimizer) -> list[Group]:
    return [(counted_parts(group["params"]), {key: value for key, value in group.items()
                               if key not in _NOT_OPTIONS}) for group in optimizer.param_groups]


def trial(kind: type, groups: Sequence[Group], device: str = "cpu", smaller_by: int = 1) -> Trial:
    """Of an optimizer of the class ``kind`` on the device. It is tried on parameters in the same
    order that are smaller by one factor, ``smaller_by`` or more, by which the result is multiplied.
    Raises what the class raises: one of somebody else's may want other arguments, or a closure.
    """
    largest = max((parameter.nbytes for parameters, _ in groups for parameter in parameters),
                  default=0)
    if not largest:
        return Trial(0, 0)
    factor = max(smaller_by, -(-largest // _TRIED_BYTES))
    with _untraced(), torch.enable_grad():
        optimizer = kind([
            {"params": [_smaller(parameter, factor, device) for parameter in parameters], **options}
            for parameters, options in groups])
        optimizer.step()  # makes its state
        _runtime.reset_peaks(device)
        before = _runtime.taken_bytes(device)
        optimizer.step()
        return Trial(factor * state_bytes(optimizer),
                     factor * (_runtime.taken_peak_bytes(device) - before))


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
    values = [value for state in optimizer.state.values() for value in state.values()]
    return sum(counted_part(value).nbytes for value in values if isinstance(value, torch.Tensor))


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
