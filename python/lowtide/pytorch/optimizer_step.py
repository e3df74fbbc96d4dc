"""Bytes that an optimizer takes while it steps and gives back: its temporaries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import _runtime
from .optimizer_state import ASSUMED

#: The largest of the parameters that an optimizer is tried with, in bytes.
_TRIED_BYTES = 1 << 18
#: What a parameter is to each group, and what changes no temporary: not options of the class.
_NOT_OPTIONS = {"params", "param_names", "lr", "initial_lr"}
#: By the names of ``optimizer_state.STATES`` that are no class of torch.optim in lower case.
_BY_NAME = {"sgd-momentum": (torch.optim.SGD, {"momentum": 0.9})}

#: Parameters, and the options that they are trained with.
_Group = tuple[Sequence[torch.Tensor], Mapping]


def step_bytes(optimizer, parameters: Iterable[torch.Tensor]) -> int:
    """The most that ``optimizer.step()`` takes for a while, in bytes, for ``parameters``.

    ``optimizer``: as for ``optimizer_state_bytes``. One of its class is tried on parameters in the
    same order that are smaller by one factor; of a class that cannot be tried, what Adam takes is
    returned.
    """
    parameters = list(parameters)
    largest = max((parameter.nbytes for parameter in parameters), default=0)
    if not largest or optimizer == "none":
        return 0
    factor = -(-largest // _TRIED_BYTES)
    kind, groups = _as_groups(optimizer, parameters)
    try:
        taken = _taken(kind, groups, factor)
    except Exception:  # a class of somebody else's may want other arguments, or a closure
        taken = _taken(torch.optim.Adam, [(parameters, {})], factor)
    return factor * taken


def _as_groups(optimizer, parameters: Sequence[torch.Tensor]) -> tuple[type, list[_Group]]:
    if isinstance(optimizer, torch.optim.Optimizer):
        return type(optimizer), [
            (group["params"], {key: value for key, value in group.items()
                               if key not in _NOT_OPTIONS}) for group in optimizer.param_groups]
    kind, options = (optimizer, {}) if isinstance(optimizer, type) else _of_name(
        ASSUMED if optimizer is None else optimizer.lower())
    return kind, [(parameters, options)]


def _of_name(name: str) -> tuple[type, Mapping]:
    classes = {known.lower(): getattr(torch.optim, known) for known in torch.optim.__all__}
    return _BY_NAME.get(name, (classes.get(name, torch.optim.Adam), {}))


def _taken(kind: type, groups: Sequence[_Group], factor: int) -> int:
    """Of parameters that are smaller by the factor. Graphs are planned while PyTorch traces, in
    modes in which no tensor has memory; here all have."""
    with _disable_current_modes(), torch.enable_grad():
        optimizer = kind([{"params": [_smaller(parameter, factor) for parameter in parameters],
                           **options} for parameters, options in groups])
        optimizer.step()  # makes its state
        _runtime.reset_peaks()
        before = _runtime.taken_bytes()
        optimizer.step()
        return _runtime.taken_peak_bytes() - before


def _smaller(parameter: torch.Tensor, factor: float) -> torch.nn.Parameter:
    """With a gradient."""
    shape = list(parameter.shape)
    for dim in sorted(range(len(shape)), key=shape.__getitem__, reverse=True):
        smaller = math.ceil(shape[dim] / factor)
        factor = max(1, factor * smaller / max(1, shape[dim]))
        shape[dim] = smaller
    made = torch.nn.Parameter(torch.ones(shape, dtype=parameter.dtype))
    made.grad = torch.ones_like(made)
    return made
