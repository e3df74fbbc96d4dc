"""Bytes that an optimizer holds between two steps, before it has made them."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .. import InputError

#: How many tensors as large as a parameter each optimizer keeps. Those of torch.optim by the name
#: of their class in lower case; options that add some are in `_copies`.
STATES = {
    "none": 0, "sgd": 0, "sgd-momentum": 1, "adam": 2, "adamw": 2, "adamax": 2, "nadam": 2,
    "radam": 2, "rmsprop": 1, "adagrad": 1, "adadelta": 2, "asgd": 1, "rprop": 2, "lion": 1,
}

#: Those that count their steps have a number for each parameter besides.
_UNCOUNTED = {"none", "sgd", "sgd-momentum", "lion"}
_COUNTER_BYTES = 4

#: What is counted when no optimizer is named: most people train with Adam, and others hold less.
ASSUMED = "adam"


def optimizer_state_bytes(optimizer, parameters: Iterable[torch.Tensor]) -> int:
    """Bytes of the state for ``parameters`` (those that are trained).

    ``optimizer``: an instance (its own options count, and what it holds already), a class, a name
    of ``STATES``, or None for Adam. Raises InputError for an unknown one.
    """
    parameters = list(parameters)
    size = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    if isinstance(optimizer, torch.optim.Optimizer):
        return _held(optimizer) or (
            size * _copies(optimizer) + _counters(_name(type(optimizer)), len(parameters)))
    name = _name(optimizer)
    return size * STATES[name] + _counters(name, len(parameters))


def _counters(name: str, parameters: int) -> int:
    return 0 if name in _UNCOUNTED else _COUNTER_BYTES * parameters


def _held(optimizer: torch.optim.Optimizer) -> int:
    tensors = [value for state in optimizer.state.values() for value in state.values()
               if isinstance(value, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


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
