"""What a model returns, as one number to run a backward pass from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch

from ... import InputError
from .inputs import tensors_in


def total(output: object) -> torch.Tensor:
    """The sum of all that has gradients in what a model returned. Raises InputError where nothing
    has."""
    leaves = [leaf for leaf in tensors_in(_plain(output)) if leaf.requires_grad]
    if not leaves:
        raise InputError("nothing that the model returns has a gradient: there is no step to run")
    return sum((leaf.sum() for leaf in leaves[1:]), leaves[0].sum())


def _plain(output: object) -> object:
    """Data classes and the like as dicts of what they hold."""
    if dataclasses.is_dataclass(output):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if isinstance(output, (Sequence, torch.Tensor, Mapping)):
        return output
    return vars(output)
