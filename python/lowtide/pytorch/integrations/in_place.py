"""A budget for a module that others hold already: its ``forward`` is exchanged, not the module."""

from __future__ import annotations

import functools
import types

import torch

import lowtide


class InPlace:
    """A module whose calls run within a budget until ``disable()``.

    A deep copy or a pickle of the module computes as the plain one.
    """

    def __init__(self, module: torch.nn.Module, budget: int | str | None, example_inputs=None,
                 **settings):
        """``settings``: those of ``lowtide.wrap``; its errors are raised."""
        if getattr(module.forward, "_lowtide_in_place", False):
            raise lowtide.InputError(
                f"{type(module).__name__} has a memory budget already: disable that one first")
        self.module = module
        self.planned = lowtide.wrap(module, example_inputs, budget, **settings)
        self._before = module.__dict__.get("forward")
        module.forward = types.MethodType(_exchanged(module, self.planned), module)

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


def _exchanged(module: torch.nn.Module, planned: torch.nn.Module):
    """A function to be bound as ``forward``. Signature and name are those of the module's own."""
    plain = getattr(module.forward, "__func__", type(module).forward)
    run = type(planned).forward

    @functools.wraps(plain)
    def forward(self, *arguments, **named):
        # A copy of the module brings this method with it.
        return (run if self is module else plain)(self, *arguments, **named)

    forward._lowtide_in_place = True
    return forward
