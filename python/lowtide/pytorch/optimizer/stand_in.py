"""An optimizer's own step for a part of what it trains."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence

import torch


def plain_step(optimizer: torch.optim.Optimizer) -> Callable[..., object]:
    """Its step without hooks, which run once however many parts are stepped."""
    return type(optimizer).step.__wrapped__


def stand_in(optimizer: torch.optim.Optimizer, parameters: Sequence[Sequence[torch.Tensor]],
             state: MutableMapping) -> torch.optim.Optimizer:
    """An object that steps as the optimizer does, for these parameters of each of its groups and
    with this state. The optimizer itself, which others may look at, stays as it is."""
    made = object.__new__(type(optimizer))
    made.__dict__.update(vars(optimizer))
    made.__dict__.update({name: hooks.copy() for name, hooks in vars(optimizer).items()
                          if name.endswith("_hooks")})  # what is registered here stays here
    made.state = state  # type: ignore[assignment]
    made.param_groups = [{**group, "params": list(chosen)} for group, chosen
                         in zip(optimizer.param_groups, parameters) if chosen]
    return made
