"""An optimizer whose parameters took other places."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ... import InputError


def step_instead(optimizer, replaced: Mapping[torch.Tensor, torch.Tensor]) -> None:
    """The optimizer, where it is one, steps the tensors that took the place of its parameters.
    Raises InputError, and changes nothing, where it has stepped before."""
    if not isinstance(optimizer, torch.optim.Optimizer) or not replaced:
        return
    if any(optimizer.state.get(parameter) for group in optimizer.param_groups
           for parameter in group["params"] if parameter in replaced):
        raise InputError(f"{type(optimizer).__name__} has a state of whole parameters already, "
                         f"which are in shards from now on: call lowtide.wrap before the first "
                         f"step, and load a state by torch.distributed.checkpoint afterwards")
    for group in optimizer.param_groups:
        group["params"] = [replaced.get(parameter, parameter) for parameter in group["params"]]
