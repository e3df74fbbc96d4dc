"""A budget for a module that others hold already: its ``forward`` is exchanged, not the module."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import torch

from ... import InputError
from ..wrap import wrap


class InPlace:
    """A module whose calls run within a budget until ``disable()``.

    A deep copy or a pickle of the module computes as the plain one.
    """

    def __init__(self, module: torch.nn.Module, budget: int | str | None, example_inputs=None,
                 **settings):
        """``settings``: those of ``lowtide.wrap``; its errors are raised."""
        if getattr(module.forward, "_lowtide_in_place", False):
            raise InputError(
                f"{type(module).__name__} has a memory budget already, and a module takes one: "
                f"give the trainer one MemoryBudget for it, or call disable() of the switch that "
                f"enable_memory_budget returned")
        self.module = module
        #: Is called before each call of the module that has the budget.
        self.before_call: Callable[[], None] | None = None
        self._before = module.__dict__.get("forward")
        plain = getattr(module.forward, "__func__", type(module).forward)
        self.planned = wrap(_Calls(module, module.forward), example_inputs, budget, **settings)
        module.forward = types.MethodType(_exchanged(self, plain), module)

    @property
    def memory(self):
        """What a step was planned to take and took: a ``Memory`` of ``lowtide.wrap``."""
        return self.planned.memory

    def disable(self) -> None:
        """The module computes as before. Does nothing the second time."""
        if getattr(self.module.forward, "_lowtide_in_place", False):
            del self.module.forward
            if self._before is not None:
                self.module.forward = self._before

    def __enter__(self) -> InPlace:
        return self

    def __exit__(self, *error) -> None:
        self.disable()


def enable_memory_budget(module: torch.nn.Module, budget: int | str | None, example_inputs=None,
                         **settings) -> InPlace:
    """Trains ``module`` within ``budget`` wherever it is called from, as ``lowtide.wrap`` does.

    ``example_inputs`` (a tensor, a tuple, or a dict for named ones): the step is planned now, and
    InfeasibleError says now that the budget is too small; without them, at the first call.
    Returns the switch that takes the budget off again; it is a context manager as well.
    """
    return InPlace(module, budget, example_inputs, **settings)


class _Calls(torch.nn.Module):
    """What is planned: the forward that the module had before the exchange."""

    def __init__(self, module: torch.nn.Module, call: Callable):
        super().__init__()
        self.module, self.call = module, call

    def forward(self, *arguments, **named):
        return self.call(*arguments, **named)


def _exchanged(switch: InPlace, plain: Callable) -> Callable:
    """A function to be bound as ``forward``; its signature and name are those of ``plain``."""
    module, planned = switch.module, switch.planned

    @functools.wraps(plain)
    def forward(self, *arguments, **named):
        # A copy of the module brings this method with it.
        if self is not module:
            return plain(self, *arguments, **named)
        if switch.before_call is not None:
            switch.before_call()
        return planned(*arguments, **named)

    forward._lowtide_in_place = True  # type: ignore[attr-defined]
    return forward
