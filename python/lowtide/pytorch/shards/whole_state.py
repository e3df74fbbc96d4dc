"""The state of a model and its optimizer as one process has it, while parameters lie in shards."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping

import torch
from torch.distributed.tensor import DTensor

from .group import Group
from .placed_parameters import PlacedParameters, whole_of


class WholeState:
    """``state_dict()`` of ``module`` and of ``optimizer`` has whole tensors, which all ranks ask
    for together; ``load_state_dict()`` takes them. So checkpoints are those of a training without
    shards. ``hold()`` makes them known before the first rank alone asks.

    ``placed``: the parameters of the module.
    """

    def __init__(self, module: torch.nn.Module, optimizer, placed: PlacedParameters, group: Group):
        self._module, self._placed, self._group = module, placed, group
        self._optimizer = optimizer if isinstance(optimizer, torch.optim.Optimizer) else None
        self._held: dict[torch.Tensor, torch.Tensor] | None = None
        of_module = functools.partial(self._of_module)  # PyTorch leaves a mark on it
        self._hooks = [module.register_state_dict_post_hook(of_module),
                       module.register_load_state_dict_pre_hook(self._into_module)]
        if self._optimizer is not None:
            self._hooks += [self._optimizer.register_state_dict_post_hook(self._of_optimizer),
                            self._optimizer.register_load_state_dict_pre_hook(self._into_optimizer)]

    def hold(self) -> None:
        """All ranks gather what lies in shards, and the first one keeps it until ``let_go()``."""
        self._meet()
        held = {}
        for tensor in [*self._placed.parameters(), *self._state()]:
            whole = whole_of(tensor)
            if self._group.rank == 0:
                held[tensor] = whole
        self._held = held

    def let_go(self) -> None:
        self._held = None

    def remove(self) -> None:
        """State is again what the module and the optimizer hold."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.let_go()

    def _state(self) -> list[torch.Tensor]:
        return [] if self._optimizer is None else [
            value for held in self._optimizer.state.values() for value in held.values()
            if isinstance(value, DTensor)]

    def _whole(self, tensor: torch.Tensor) -> torch.Tensor:
        return whole_of(tensor) if self._held is None else self._held.get(tensor, tensor)

    def _meet(self) -> None:
        """Before whole tensors are asked for. Raises Error where other ranks do something else."""
        if self._held is None:
            self._group.meet("gather the whole state")

    # ---- Of the module

    def _of_module(self, module: torch.nn.Module, state: dict, prefix: str, _) -> None:
        self._meet()
        wholes: dict[torch.Tensor, torch.Tensor] = {}
        for name, parameter in self._named():
            if f"{prefix}{name}" in state:
                if parameter not in wholes:
                    wholes[parameter] = self._whole(parameter)
                state[f"{prefix}{name}"] = wholes[parameter]

    def _into_module(self, module: torch.nn.Module, state: dict, prefix: str, *_) -> None:
        for name, parameter in self._named():
            given = state.get(f"{prefix}{name}")
            if isinstance(given, torch.Tensor):
                state[f"{prefix}{name}"] = self._in_shards(given, parameter)

    def _named(self) -> Iterable[tuple[str, torch.nn.Parameter]]:
        return self._module.named_parameters(remove_duplicate=False)

    def _in_shards(self, given: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
        """What does not fit is left for PyTorch to refuse."""
        if isinstance(given, DTensor) or given.shape != parameter.shape or not given.dim():
            return given
        return self._placed.like(given.to(parameter.device), parameter)

    # ---- Of the optimizer

    def _of_optimizer(self, _, state: dict) -> dict:
        self._meet()
        return _converted(state, lambda value, _: self._whole(value) if isinstance(value, DTensor)
                          else value)

    def _into_optimizer(self, optimizer: torch.optim.Optimizer, state: dict) -> dict:
        numbers = [number for group in state["param_groups"] for number in group["params"]]
        own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        by_number = dict(zip(numbers, own))
        placed = set(self._placed.parameters())

        def in_shards(value, number):
            parameter = by_number.get(number)
            return self._in_shards(value, parameter) if parameter in placed else value

        return _converted(state, in_shards)


def _converted(state: dict, convert: Callable) -> dict:
    """The state of an optimizer with ``convert(value, number)`` for each of its tensors. What is
    given stays as it is: it is the optimizer's own."""
    return {**state, "state": {
        number: {name: convert(value, number) if isinstance(value, torch.Tensor) else value
                 for name, value in held.items()} if isinstance(held, Mapping) else held
        for number, held in state["state"].items()}}
