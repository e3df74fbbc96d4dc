"""Example inputs as users give them, as positional and named arguments."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import torch
from torch.utils import _pytree as pytree

from ... import InputError


@dataclasses.dataclass(frozen=True)
class ExampleCall:
    """Example inputs with positional and named arguments."""

    arguments: tuple
    named: dict


def arguments_of(example_inputs: object) -> tuple[tuple, dict]:
    """Positional and named arguments: of a tuple or list, of a mapping, or of one tensor."""
    if isinstance(example_inputs, ExampleCall):
        return example_inputs.arguments, example_inputs.named
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def tensors_in(tree: object) -> list[torch.Tensor]:
    """Those among the leaves of nested containers, in their order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def device_of(model: torch.nn.Module, inputs: object = None) -> torch.device:
    """Where the first parameter of the model is, or else the first of the inputs; the CPU without
    any."""
    return next((tensor.device for tensor in [*model.parameters(), *tensors_in(inputs)]),
                torch.device("cpu"))


def require_one_device(model: torch.nn.Module, arguments: tuple, named: Mapping) -> None:
    """Raises InputError when a model is called with tensors on another device than its own."""
    own = {tensor.device for tensor in itertools.chain(model.parameters(), model.buffers())}
    given = {tensor.device for tensor in tensors_in((arguments, dict(named)))}
    if own and given - own:
        raise InputError(
            f"{type(model).__name__} is on {_names(own)} and was called with tensors on "
            f"{_names(given)}: move the inputs to the model's device with .to(), or wrap the model "
            f"after moving it") from None


def _names(devices: set[torch.device]) -> str:
    return " and ".join(sorted(map(str, devices)))
