"""The hooks by which an optimizer is stepped in pieces, whoever calls its step."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch

from .moving_state import MovingState
from .piecewise import Piecewise
from .stand_in import stand_in

#: One for each optimizer: the last model that was wrapped with it has its state moved.
_ALL: weakref.WeakKeyDictionary[torch.optim.Optimizer, MovingOptimizer] = (
    weakref.WeakKeyDictionary())


class MovingOptimizer:
    """An optimizer that is stepped in pieces once ``move`` was called, until ``let_go``.

    Its step, its groups and its hooks stay what they are, so that schedulers and scalers may
    exchange its step before and after this. PyTorch's hook before a step has it run on a stand-in
    without parameters, and hands it a closure that calls the user's and then steps the pieces.
    """

    def __init__(self, optimizer: torch.optim.Optimizer):
        earlier = _ALL.get(optimizer)
        if earlier is not None:
            earlier.let_go()
        _ALL[optimizer] = self
        self.piecewise: Piecewise | None = None
        self._away: list = []
        self._hooks = [
            optimizer.register_step_pre_hook(_weakly(self._before_step)),
            optimizer.register_state_dict_pre_hook(_weakly(self._before_state_dict)),
            optimizer.register_state_dict_post_hook(_weakly(self._after_state_dict)),
            optimizer.register_load_state_dict_post_hook(_weakly(self._after_load))]

    def move(self, optimizer: torch.optim.Optimizer, piecewise: Piecewise) -> None:
        """Sends the state away. Raises Error where that fails; then nothing has changed."""
        piecewise.adopt(optimizer)
        self.piecewise = piecewise

    def stay(self) -> None:
        """The optimizer steps as it did before; its state comes back when it is asked for."""
        self.piecewise = None

    def let_go(self) -> None:
        """The same, and ``move`` is not called any more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.stay()

    def _before_step(self, optimizer, arguments, named):
        """A model that is planned at its first call may be so within the closure of a step."""
        closure = arguments[1] if len(arguments) > 1 else named.get("closure")
        if self.piecewise is None and closure is None:
            return None
        stepped = stand_in(optimizer, [], optimizer.state)
        stepped.param_groups = optimizer.param_groups

        def run_and_step():
            loss = None if closure is None else closure()
            if self.piecewise is not None:
                stepped.param_groups = []
                with torch.no_grad():
                    self.piecewise.step(optimizer)
            return loss

        return (stepped, run_and_step), {}

    def _before_state_dict(self, optimizer):
        state = optimizer.state
        self._away = state.away() if isinstance(state, MovingState) else []

    def _after_state_dict(self, optimizer, state_dict):
        """What came back for it alone is held by it alone."""
        for key in self._away:
            if key in optimizer.state:
                optimizer.state.send_away(key)
        self._away = []

    def _after_load(self, optimizer):
        if self.piecewise is not None:
            self.piecewise.adopt(optimizer)


def _weakly(method: Callable) -> Callable:
    """A hook that keeps nothing alive of a model that is gone."""
    reference = weakref.WeakMethod(method)

    def call(*arguments):
        live = reference()
        return None if live is None else live(*arguments)

    return call
