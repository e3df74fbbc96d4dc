"""An optimizer whose parameters took other places."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ... import InputError


def require_fresh(optimizer) -> None:
    """Raises InputError for an optimizer that has stepped before."""
    if isinstance(optimizer, torch.optim.Optimizer) and any(optimizer.state.values()):
        raise InputError(f"{type(optimizer).__name__} has a state of whole parameters already, "
                         f"which lowtide.wrap places on the mesh: call it before the first step, "
                         f"and load a state by torch.distributed.checkpoint afterwards")


def step_instead(optimizer, replaced: Mapping[torch.Tensor, torch.Tensor]) -> None:
    """The optimizer, where it is one, steps the tensors that took the place of its parameters."""
    for group in getattr(optimizer, "param_groups", ()):
        group["params"] = [replaced.get(parameter, parameter) for parameter in group["params"]]
