"""An optimizer whose parameters took other places, and its state with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from ... import InputError
from .group import Group

#: ``moved(tensor, parameter)``: a tensor of the state as large as a parameter, as the parameter
#: lies that takes the place of its own.
MovedState = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def require_placeable(optimizer) -> None:
    """Raises InputError for an optimizer with a state that is not by element of its parameters."""
    for parameter, name, value in _state(optimizer):
        if value.dim() and value.shape != parameter.shape:
            raise InputError(f"{type(optimizer).__name__} has stepped already, and {name} of its "
                             f"state has the shape {tuple(value.shape)} for a parameter of shape "
                             f"{tuple(parameter.shape)}, so that it cannot be placed on the mesh: "
                             f"call lowtide.wrap before the first step")


def state_as_on_first(optimizer, group: Group) -> None:
    """All ranks have the state of the first one's optimizer. Raises Error where they differ in
    more than numbers."""
    found = _state(optimizer)
    group.meet("place the optimizer's state",
               str([(name, value.shape, value.dtype) for _, name, value in found]))
    group.as_on_first([value for _, _, value in found])


def step_instead(optimizer, replaced: Mapping[torch.Tensor, torch.Tensor],
                 moved: MovedState) -> None:
    """The optimizer, where it is one, steps the tensors that took the place of its parameters, with
    the state of those."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return
    for group in optimizer.param_groups:
        group["params"] = [replaced.get(parameter, parameter) for parameter in group["params"]]
    for parameter, held in [(one, held) for one, held in optimizer.state.items()
                            if one in replaced]:
        del optimizer.state[parameter]
        instead = replaced[parameter]
        optimizer.state[instead] = {
            name: moved(value, instead)
            if isinstance(value, torch.Tensor) and value.dim() else value
            for name, value in held.items()}


def _state(optimizer) -> list[tuple[torch.Tensor, str, torch.Tensor]]:
    """By parameter and name, its tensors, in the order of its parameters."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return []
    return [(parameter, name, value) for group in optimizer.param_groups
            for parameter in group["params"]
            for name, value in optimizer.state.get(parameter, {}).items()
            if isinstance(value, torch.Tensor)]
