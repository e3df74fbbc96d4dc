"""Bytes of optimizer state, known before the optimizer has made it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

import torch

from ... import InputError
from ..common.local_tensor import counted_parts
from ..common.notices import warn
from .optimizer_trial import (
    OUT_OF_MEMORY,
    Group,
    groups_of,
    options_of,
    state_bytes,
    trial,
    wants_closure,
)

#: How many tensors as large as a parameter each optimizer keeps. Those of torch.optim by the name
#: of their class in lower case; options that add some are in `_copies`.
STATES = {
    "none": 0, "sgd": 0, "sgd-momentum": 1, "adam": 2, "adamw": 2, "adamax": 2, "nadam": 2,
    "radam": 2, "rmsprop": 1, "adagrad": 1, "adadelta": 2, "asgd": 1, "rprop": 2, "lion": 1,
}

#: Those that count their steps also have a number for each parameter.
_UNCOUNTED = {"none", "sgd", "sgd-momentum", "lion"}
_COUNTER_BYTES = 4

#: What is counted when no optimizer is named: most people train with Adam, and others hold less.
ASSUMED = "adam"


def optimizer_state_bytes(optimizer, parameters: Iterable[torch.Tensor]) -> int:
    """Bytes of the state for ``parameters`` (those that are trained).

    ``optimizer``: an instance (the options of its groups count, and what it holds already), a
    class, a name of ``STATES``, or None for Adam. A class that is not one of torch.optim is tried
    on small parameters; one that cannot be tried counts as what its name says, or as Adam, with a
    warning. Of one whose step runs the model, as LBFGS does, it is the most that is held meanwhile,
    by a history as long as it gets. Raises InputError for what is no optimizer.
    """
    parameters = list(parameters)
    size = sum(parameter.nbytes for parameter in parameters)
    if isinstance(optimizer, torch.optim.Optimizer):
        held = state_bytes(optimizer)
        if wants_closure(type(optimizer)):
            return max(held, _state_to_come(optimizer, groups_of(optimizer), size, len(parameters)))
        return held + _state_still_to_come(optimizer, size, len(parameters), held)
    if _is_unknown_class(optimizer):
        return _tried(optimizer, [(parameters, {})], size) if parameters else 0
    name = _name(optimizer)
    return size * STATES[name] + _counters(name, len(parameters))


def present_state_bytes(optimizer) -> int:
    """Bytes of the state that an optimizer has made; 0 for the name of one."""
    return state_bytes(optimizer) if isinstance(optimizer, torch.optim.Optimizer) else 0


def _state_still_to_come(optimizer: torch.optim.Optimizer, size: int, parameters: int,
                         held: int) -> int:
    """What is made for parameters that have no state yet, such as layers that were frozen."""
    if not held:
        return _state_to_come(optimizer, groups_of(optimizer), size, parameters)
    if hasattr(optimizer.state, "nbytes"):  # a part of it is in slower memory
        return 0
    groups = [(_without_state(optimizer, group), options_of(group))
              for group in optimizer.param_groups]
    if sum(len(missing) for missing, _ in groups) == sum(
            len(group["params"]) for group in optimizer.param_groups):
        return 0  # it keeps its state elsewhere than by parameter
    missing = [parameter for parameters, _ in groups for parameter in parameters]
    return _state_to_come(optimizer, groups, _size(missing), len(missing)) if missing else 0


def _without_state(optimizer: torch.optim.Optimizer, group: Mapping) -> list[torch.Tensor]:
    return counted_parts(parameter for parameter in group["params"]
                         if parameter.requires_grad and not optimizer.state.get(parameter))


def _state_to_come(optimizer: torch.optim.Optimizer, groups: Sequence[Group], size: int,
                   parameters: int) -> int:
    """For ``parameters`` of ``size`` bytes, most of which are in the groups."""
    kind = type(optimizer)
    if _is_unknown_class(kind):
        return _tried(kind, groups, size)
    sizes = [_size(group) for group, _ in groups]
    copies = [_copies(kind, options) for _, options in groups]
    of_groups = sum(map(operator.mul, sizes, copies))
    # Some may be added to it later, and on ranks it may have whole ones still.
    return -(-size * of_groups // max(1, sum(sizes))) + _counters(_name(kind), parameters)


def _size(parameters: Iterable[torch.Tensor]) -> int:
    return sum(parameter.nbytes for parameter in parameters)


def _is_unknown_class(optimizer) -> bool:
    """A class that only has the name of one of torch.optim may hold anything."""
    return (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)
            and not (optimizer.__name__.lower() in STATES
                     and optimizer.__module__.startswith("torch.optim.")))


def _tried(kind: type, groups: Sequence[Group], size: int) -> int:
    try:
        return trial(kind, groups).state_bytes
    except OUT_OF_MEMORY:
        raise
    except Exception as error:
        like = kind.__name__.lower() if kind.__name__.lower() in STATES else ASSUMED
        warn(f"{kind.__name__} could not be tried on small parameters ({error}), so the budget "
             f"counts what {like} would hold. Name the one that it is like, as in "
             f"optimizer=\"sgd-momentum\"")
        return size * STATES[like]


def _counters(name: str, parameters: int) -> int:
    return 0 if name in _UNCOUNTED else _COUNTER_BYTES * parameters


def _copies(kind: type, options: Mapping) -> int:
    copies = STATES[_name(kind)]
    if issubclass(kind, (torch.optim.SGD, torch.optim.RMSprop)):
        copies += bool(options.get("momentum"))
    return copies + bool(options.get("amsgrad")) + bool(options.get("centered"))


def _name(optimizer) -> str:
    if optimizer is None:
        return ASSUMED
    name = optimizer.__name__ if isinstance(optimizer, type) else optimizer
    if isinstance(name, str) and name.lower() in STATES:
        return name.lower()
    raise InputError(
        f"unknown optimizer {optimizer!r}: give the optimizer itself, or one of "
        f"{', '.join(STATES)} by what it holds for each parameter")
