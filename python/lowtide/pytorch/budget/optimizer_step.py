"""Bytes of the temporaries that an optimizer allocates while it steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from .optimizer_state import ASSUMED
from .optimizer_trial import OUT_OF_MEMORY, Group, groups_of, trial

#: By the names of ``optimizer_state.STATES`` that are no class of torch.optim in lower case.
_BY_NAME = {"sgd-momentum": (torch.optim.SGD, {"momentum": 0.9})}
#: It is tried before a step, on the device, whose budget then has room for the gradients and the
#: state: with parameters of their own and temporaries that is less than so many times as much.
_SMALLER_BY = 4


def step_bytes(optimizer, parameters: Iterable[torch.Tensor], device: str) -> int:
    """The most that ``optimizer.step()`` takes for a while, in bytes, for ``parameters`` on the
    device.

    ``optimizer``: as for ``optimizer_state_bytes``; of a class that cannot be tried, what Adam
    takes is returned.
    """
    parameters = list(parameters)
    if optimizer == "none":
        return 0
    return temporary_bytes(*as_groups(optimizer, parameters), device)


def update_bytes(optimizer: torch.optim.Optimizer, device: str) -> int:
    """The most that the optimizer takes for a while where it steps for one parameter alone."""
    return max((temporary_bytes(type(optimizer), [([max(group, key=lambda one: one.nbytes)],
                                                   options)], device)
                for group, options in groups_of(optimizer) if group), default=0)


def temporary_bytes(kind: type, groups: Sequence[Group], device: str) -> int:
    """The same for an optimizer of a class, with groups of parameters and their options."""
    try:
        return trial(kind, groups, device, _SMALLER_BY).step_bytes
    except OUT_OF_MEMORY:  # which says nothing of the class
        raise
    except Exception:
        parameters = [parameter for group, _ in groups for parameter in group]
        return trial(torch.optim.Adam, [(parameters, {})], device, _SMALLER_BY).step_bytes


def as_groups(optimizer, parameters: Sequence[torch.Tensor]) -> tuple[type, list[Group]]:
    """The class of an optimizer, as it is given to ``optimizer_state_bytes``, and its parameters in
    groups: its own, or ``parameters``."""
    if isinstance(optimizer, torch.optim.Optimizer):
        return type(optimizer), groups_of(optimizer)
    kind, options = (optimizer, {}) if isinstance(optimizer, type) else _of_name(
        ASSUMED if optimizer is None else optimizer.lower())
    return kind, [(parameters, options)]


def _of_name(name: str) -> tuple[type, Mapping]:
    classes = {known.lower(): getattr(torch.optim, known) for known in torch.optim.__all__}
    return _BY_NAME.get(name, (classes.get(name, torch.optim.Adam), {}))
