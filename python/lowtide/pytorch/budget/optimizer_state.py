"""Bytes of optimizer state, known before the optimizer has made it."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ... import InputError
from ..common.notices import warn
from .optimizer_trial import OUT_OF_MEMORY, groups_of, state_bytes, trial, wants_closure

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

    ``optimizer``: an instance (its own options count, and what it holds already), a class, a name
    of ``STATES``, or None for Adam. A class that is not among ``STATES`` is tried on small
    parameters; one that cannot be tried counts as Adam, with a warning. Of one whose step runs the
    model, as LBFGS does, it is the most that is held meanwhile, by a history as long as it gets.
    Raises InputError for what is no optimizer.
    """
    parameters = list(parameters)
    size = sum(parameter.nbytes for parameter in parameters)
    if isinstance(optimizer, torch.optim.Optimizer):
        held = state_bytes(optimizer)
        if held and not wants_closure(type(optimizer)):
            return held
        return max(held, _state_to_come(optimizer, size, len(parameters)))
    if _is_unknown_class(optimizer):
        return _tried(optimizer, [(parameters, {})], size) if parameters else 0
    name = _name(optimizer)
    return size * STATES[name] + _counters(name, len(parameters))


def present_state_bytes(optimizer) -> int:
    """Bytes of the state that an optimizer has made; 0 for the name of one."""
    return state_bytes(optimizer) if isinstance(optimizer, torch.optim.Optimizer) else 0


def _state_to_come(optimizer: torch.optim.Optimizer, size: int, parameters: int) -> int:
    if _is_unknown_class(type(optimizer)):
        return _tried(type(optimizer), groups_of(optimizer), size)
    return size * _copies(optimizer) + _counters(_name(type(optimizer)), parameters)


def _is_unknown_class(optimizer) -> bool:
    return (isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer)
            and optimizer.__name__.lower() not in STATES)


def _tried(kind: type, groups, size: int) -> int:
    try:
        return trial(kind, groups).state_bytes
    except OUT_OF_MEMORY:
        raise
    except Exception as error:
        warn(f"{kind.__name__} could not be tried on small parameters ({error}), so the budget "
             f"counts what {ASSUMED} would hold. Name the one that it is like, as in "
             f"optimizer=\"sgd-momentum\"")
        return size * STATES[ASSUMED]


def _counters(name: str, parameters: int) -> int:
    return 0 if name in _UNCOUNTED else _COUNTER_BYTES * parameters


def _copies(optimizer: torch.optim.Optimizer) -> int:
    defaults = optimizer.defaults
    copies = STATES[_name(type(optimizer))]
    if isinstance(optimizer, (torch.optim.SGD, torch.optim.RMSprop)):
        copies += bool(defaults.get("momentum"))
    return copies + bool(defaults.get("amsgrad")) + bool(defaults.get("centered"))


def _name(optimizer) -> str:
    if optimizer is None:
        return ASSUMED
    name = optimizer.__name__ if isinstance(optimizer, type) else optimizer
    if isinstance(name, str) and name.lower() in STATES:
        return name.lower()
    raise InputError(
        f"unknown optimizer {optimizer!r}: give the optimizer itself, or one of "
        f"{', '.join(STATES)} by what it holds for each parameter")
