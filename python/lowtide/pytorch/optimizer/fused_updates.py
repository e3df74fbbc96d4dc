"""Steps an optimizer for one parameter after the other, while a backward pass runs."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ... import Error, InputError
from ..common.spent_gradient import SpentGradient
from .elementwise import why_not_by_element
from .stand_in import plain_step, stand_in


class FusedUpdates:
    """Updates each parameter by the optimizer's own step as soon as a graph has its gradient, which
    is gone afterwards: a SpentGradient stands in its place until ``optimizer.step()`` ends the
    step. Then hooks run, and parameters that no graph updated are updated.

    Raises InputError for an optimizer that does not treat each element of a parameter alone.
    """

    def __init__(self, optimizer: object):
        why_not = why_not_by_element(optimizer)
        if why_not:
            raise InputError(f"fused_update=True: {why_not}. Leave it out")
        assert isinstance(optimizer, torch.optim.Optimizer)  # or there was a reason
        self._optimizer = optimizer
        self._updated: set[torch.Tensor] = set()
        self._made_bytes = 0
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def let_go(self) -> None:
        self._hook.remove()

    def require_all(self, parameters) -> None:
        """Raises InputError where one that is trained is not the optimizer's."""
        own = {parameter for group in self._optimizer.param_groups for parameter in group["params"]}
        missing = [parameter for parameter in parameters
                   if parameter.requires_grad and parameter not in own]
        if missing:
            raise InputError(f"fused_update=True: {len(missing)} of the model's parameters are not "
                             f"the optimizer's, such as one of shape {tuple(missing[0].shape)}: "
                             f"give it all that are trained, or freeze the others by "
                             f"requires_grad_(False)")

    def take_made_bytes(self) -> int:
        """Of state that updates have made since this was last asked."""
        made, self._made_bytes = self._made_bytes, 0
        return made

    def of_backward(self) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """What updates parameters in one backward pass, by their gradients and their data."""
        parameters = {_place(parameter): parameter for group in self._optimizer.param_groups
                      for parameter in group["params"]}

        def update(gradient: torch.Tensor, data: torch.Tensor) -> None:
            if _place(data) not in parameters:
                raise Error(f"fused_update=True: a parameter of shape {tuple(data.shape)} is not "
                            f"the optimizer's: give it all that are trained")
            self._update(parameters[_place(data)], gradient)

        return update

    def _update(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        if parameter in self._updated:
            raise Error(f"a parameter of shape {tuple(parameter.shape)} gets a second gradient in "
                        f"one step, and with fused_update=True the first one has updated it. Call "
                        f"optimizer.step() after each backward(), and use it in one call of the "
                        f"model and in one graph only; or leave fused_update out")
        if parameter.grad is not None:
            raise Error(f"a parameter of shape {tuple(parameter.shape)} has a gradient before the "
                        f"backward pass, to which fused_update=True does not add: call "
                        f"optimizer.zero_grad() before, or leave fused_update out")
        self._updated.add(parameter)
        groups = [[parameter] if any(parameter is own for own in group["params"]) else []
                  for group in self._optimizer.param_groups]
        state = self._optimizer.state
        is_new = not state.get(parameter)
        parameter.grad = gradient
        try:
            plain_step(self._optimizer)(stand_in(self._optimizer, groups, state))
        finally:
            parameter.grad = None
        parameter.grad = SpentGradient.of(parameter)
        if is_new:
            self._made_bytes += sum(value.nbytes for value in state.get(parameter, {}).values()
                                    if isinstance(value, torch.Tensor))

    def _before_step(self, *_) -> None:
        for parameter in self._updated:
            if isinstance(parameter.grad, SpentGradient):
                parameter.grad = None
        twice = [parameter for parameter in self._updated if parameter.grad is not None]
        self._updated.clear()
        if twice:
            raise Error(f"a parameter of shape {tuple(twice[0].shape)} got a gradient after "
                        f"fused_update=True had updated it. Use it within the model only, or leave "
                        f"fused_update out")


def _place(tensor: torch.Tensor) -> tuple:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride()
