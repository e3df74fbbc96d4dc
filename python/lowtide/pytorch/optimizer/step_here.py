"""Steps an optimizer of DTensors by what of them is on this rank."""

from __future__ import annotations

import weakref

import torch
from torch.distributed.tensor import DTensor

from ..common.local_tensor import local_part
from ..shards.placed_parameters import lying_as
from .elementwise import state_tensors, why_not_by_element
from .stand_in import stand_in

_ALL: weakref.WeakKeyDictionary[torch.optim.Optimizer, StepHere] = weakref.WeakKeyDictionary()


def step_here(optimizer: object) -> None:
    """From now on, an optimizer that treats each element alone steps plain tensors. A DTensor
    decides for each operation where its result lies, which takes longer than the operation. Other
    optimizers step as before."""
    if not why_not_by_element(optimizer) and optimizer not in _ALL:
        assert isinstance(optimizer, torch.optim.Optimizer)  # or there was a reason
        _ALL[optimizer] = StepHere(optimizer)


class StepHere:
    """By PyTorch's hooks around a step: the one before has it run on a stand-in, with the tensors
    of this rank and what state they have."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        #: Of a step that is not over, or has failed: by parameter, its tensor here.
        self._stepped: dict[torch.Tensor, torch.Tensor] = {}
        self._state: dict[torch.Tensor, dict] = {}
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(lambda optimizer, *_: self._end(optimizer))
        optimizer.register_state_dict_pre_hook(self._end)
        optimizer.register_load_state_dict_pre_hook(lambda optimizer, _: self._end(optimizer))

    def _before_step(self, optimizer: torch.optim.Optimizer, arguments: tuple, named: dict
                     ) -> tuple[tuple, dict] | None:
        self._end(optimizer)
        if len(arguments) > 1 or named:  # a closure makes gradients within the step
            return None
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]
                      if parameter.grad is not None]
        if not any(isinstance(parameter, DTensor) for parameter in parameters):
            return None
        if not all(map(_gradient_lies_alike, parameters)):
            return None
        here = {parameter: _here(parameter) for parameter in parameters}
        state = {tensor: {name: local_part(value) if isinstance(value, torch.Tensor) else value
                          for name, value in optimizer.state.get(parameter, {}).items()}
                 for parameter, tensor in here.items()}
        self._stepped, self._state = here, state
        groups = [[here[parameter] for parameter in group["params"] if parameter in here]
                  for group in optimizer.param_groups]
        return (stand_in(optimizer, groups, state),), {}

    def _end(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer has the state that was made, which lies as its parameters do."""
        stepped, self._stepped = self._stepped, {}
        state, self._state = self._state, {}
        if not stepped:
            return
        for group in optimizer.param_groups:
            names = state_tensors(optimizer, group)
            for parameter in group["params"]:
                if parameter in stepped:
                    held = optimizer.state.setdefault(parameter, {})
                    _place(held, state[stepped[parameter]], parameter, names)
        torch.autograd.graph.increment_version([one for one in stepped if isinstance(one, DTensor)])


def _gradient_lies_alike(parameter: torch.Tensor) -> bool:
    """Or both are plain tensors."""
    gradient = parameter.grad
    if not isinstance(parameter, DTensor) or not isinstance(gradient, DTensor):
        return type(gradient) is torch.Tensor and not isinstance(parameter, DTensor)
    return (gradient.placements == parameter.placements
            and gradient.device_mesh == parameter.device_mesh)


def _here(parameter: torch.Tensor) -> torch.Tensor:
    here = local_part(parameter).detach()
    here.grad = local_part(parameter.grad)
    return here


def _place(held: dict, made: dict, parameter: torch.Tensor, names: tuple[str, ...]) -> None:
    """``names``: of tensors as large as the parameter."""
    for name, value in made.items():
        if name not in held or local_part(held[name]) is not value:
            is_new = name in names and isinstance(value, torch.Tensor)
            held[name] = lying_as(parameter, value) if is_new else value
