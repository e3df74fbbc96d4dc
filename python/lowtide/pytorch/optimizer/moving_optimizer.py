"""The hooks by which an optimizer is stepped in pieces, whoever calls its step."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager

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

    ``lock``: is held by who moves the state, which other threads may do.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, lock: AbstractContextManager):
        earlier = _ALL.get(optimizer)
        if earlier is not None:
            earlier.let_go()
        _ALL[optimizer] = self
        self.piecewise: Piecewise | None = None
        #: Whether the optimizer steps, or loads a state, so that its state must stay where it is.
        #: As PyTorch calls no hook after an error, it is taken back by who knows better.
        self.is_in_use = False
        self._lock = lock
        self._away: list = []
        self._hooks = [
            optimizer.register_step_pre_hook(_weakly(self._before_step)),
            optimizer.register_step_post_hook(_weakly(self._after_use)),
            optimizer.register_state_dict_pre_hook(_weakly(self._before_state_dict)),
            optimizer.register_state_dict_post_hook(_weakly(self._after_state_dict)),
            optimizer.register_load_state_dict_pre_hook(_weakly(self._before_load)),
            optimizer.register_load_state_dict_post_hook(_weakly(self._after_load))]

    def move(self, optimizer: torch.optim.Optimizer, piecewise: Piecewise) -> None:
        """Sends the state away. Raises Error where that fails; then nothing has changed."""
        piecewise.adopt(optimizer)
        self.piecewise = piecewise

    def stay(self) -> None:
        """The optimizer steps as it did before; its state comes back when it is asked for."""
        self.piecewise = None

    def bring_back(self, optimizer: torch.optim.Optimizer) -> None:
        """All of the state, and gives its room in slower memory back. Raises Error where a copy
        fails; then it is asked for again when it is used."""
        self.stay()
        if isinstance(optimizer.state, MovingState):
            optimizer.state = optimizer.state.copy()

    def let_go(self) -> None:
        """The same, and ``move`` is not called any more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.stay()

    def _before_step(self, optimizer, arguments, named):
        """A model that is planned at its first call may be so within the closure of a step."""
        closure = arguments[1] if len(arguments) > 1 else named.get("closure")
        if closure is None and not self._begin_use():
            return None
        stepped = stand_in(optimizer, [], optimizer.state)
        stepped.param_groups = optimizer.param_groups

        def run_and_step():
            loss = None if closure is None else closure()
            moves = self._begin_use()
            stepped.state = optimizer.state  # the closure may have exchanged it
            if moves:
                stepped.param_groups = []
                with torch.no_grad():
                    self.piecewise.step(optimizer)
            return loss

        return (stepped, run_and_step), {}

    def _begin_use(self) -> bool:
        """Whether the state moves, which nobody changes until the use is over."""
        with self._lock:
            self.is_in_use = True
            return self.piecewise is not None

    def _after_use(self, *_) -> None:
        self.is_in_use = False

    def _before_state_dict(self, optimizer):
        state = optimizer.state
        self._away = state.away() if isinstance(state, MovingState) else []

    def _after_state_dict(self, optimizer, state_dict):
        """What came back for it alone is held by it alone."""
        for key in self._away if isinstance(optimizer.state, MovingState) else []:
            if key in optimizer.state:
                optimizer.state.send_away(key)
        self._away = []

    def _before_load(self, optimizer, state_dict):
        self._begin_use()

    def _after_load(self, optimizer):
        if self.piecewise is not None:
            self.piecewise.adopt(optimizer)
        self._after_use()


def _weakly(method: Callable) -> Callable:
    """A hook that keeps nothing alive of a model that is gone."""
    reference = weakref.WeakMethod(method)

    def call(*arguments):
        live = reference()
        return None if live is None else live(*arguments)

    return call
