"""A budget for a module that others hold already: its ``forward`` is exchanged, not the module."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable

import torch
from torch.nn.parallel import DistributedDataParallel

from ... import InputError
from ..budget.memory import Memory
from ..common.inputs import ExampleCall
from ..metrics import metrics
from ..wrap import wrap
from .several_ranks import SeveralRanks


class InPlace:
    """A module whose calls run within a budget until ``disable()``.

    A deep copy or a pickle of the module computes as the plain one. On several ranks a module is
    planned by its first call for training, where there are no example inputs.
    """

    def __init__(self, module: torch.nn.Module, budget: int | str | None, example_inputs=None,
                 **settings):
        """``settings``: those of ``lowtide.wrap``; its errors are raised. Of a
        DistributedDataParallel the module within is planned."""
        if isinstance(module, DistributedDataParallel):
            module = module.module
        if InPlace.of(module) is not None:
            raise InputError(
                f"{type(module).__name__} has a memory budget already, and a module takes one: "
                f"give the trainer one MemoryBudget for it, or call disable() of the switch that "
                f"enable_memory_budget returned")
        self.module = module
        #: Is called before each call of the module that has the budget.
        self.before_call: Callable[[], None] | None = None
        #: None before the module is planned.
        self.planned: torch.nn.Module | None = None
        self._before = module.__dict__.get("forward")
        self._calls = _Calls(module, module.forward)
        self._budget, self._settings = budget, settings
        self._ranks = SeveralRanks.found(module, settings)
        plain = getattr(module.forward, "__func__", type(module).forward)
        if self._ranks is None or example_inputs is not None:
            try:
                self._plan(example_inputs)
            except BaseException:
                if self._ranks is not None:
                    self._ranks.end()
                raise
        module.forward = types.MethodType(_exchanged(self, plain), module)

    @staticmethod
    def of(module: torch.nn.Module) -> InPlace | None:
        """What keeps the module within a budget, where something does."""
        if isinstance(module, DistributedDataParallel):
            module = module.module
        return getattr(module.forward, "_lowtide_in_place", None)

    @property
    def memory(self) -> Memory:
        """What a step was planned to take and took: a ``Memory`` of ``lowtide.wrap``."""
        return Memory(None, 0, 0) if self.planned is None else self.planned.memory

    @property
    def metrics(self) -> dict[str, float]:
        """As of ``lowtide.metrics``; empty before the module is planned."""
        return {} if self.planned is None else metrics(self.planned)

    def disable(self) -> None:
        """The module computes as before. Does nothing the second time. On several ranks all do
        this together, and the module has whole parameters again."""
        if InPlace.of(self.module) is not None:
            del self.module.forward
            if self._before is not None:
                self.module.forward = self._before
            if self._ranks is not None:
                self._ranks.end()

    def abandon(self) -> None:
        """As ``disable()``, but for several ranks: they do not all come here, so the module keeps
        its budget, and what lies on the other ranks stays there."""
        if self._ranks is None:
            self.disable()

    def whole_state(self) -> contextlib.AbstractContextManager[None]:
        """As of ``SeveralRanks.whole_state``."""
        return contextlib.nullcontext() if self._ranks is None else self._ranks.whole_state()

    def call(self, *arguments, **named):
        """The module's own forward, by the plan where there is one."""
        if self.planned is None:
            if not torch.is_grad_enabled():
                return self._calls(*arguments, **named)
            self._plan(ExampleCall(arguments, named))
        return self.planned(*arguments, **named)

    def _plan(self, example_inputs) -> None:
        if self._ranks is None:
            self.planned = wrap(self._calls, example_inputs, self._budget, **self._settings)
        else:
            self.planned = wrap(self._calls, example_inputs, self._budget,
                                **self._settings | {"mesh": self._ranks.mesh})
            self._ranks.begin(self.planned)

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
    """What is planned: the forward that the module had before the exchange. A method is called with
    the module, so that a trace finds the parameters by their names there; paths of modules leave
    out what is written as ``__inside__``."""

    def __init__(self, module: torch.nn.Module, call: Callable):
        super().__init__()
        self.__inside__ = module
        is_own = isinstance(call, types.MethodType) and call.__self__ is module
        self.call = (call.__func__ if is_own  # type: ignore[attr-defined]
                     else lambda _, *given, **named: call(*given, **named))

    def forward(self, *arguments, **named):
        return self.call(self.__inside__, *arguments, **named)


def _exchanged(switch: InPlace, plain: Callable) -> Callable:
    """A function to be bound as ``forward``; its signature and name are those of ``plain``."""
    module = switch.module

    @functools.wraps(plain)
    def forward(self, *arguments, **named):
        # A copy of the module brings this method with it.
        if self is not module:
            return plain(self, *arguments, **named)
        if switch.before_call is not None:
            switch.before_call()
        return switch.call(*arguments, **named)

    forward._lowtide_in_place = switch  # type: ignore[attr-defined]
    return forward
