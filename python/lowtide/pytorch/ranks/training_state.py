"""The state of a training as tensors by name and values of JSON, and back.

Names are those of torch.distributed.checkpoint.state_dict, without the prefixes of wrappers such as
DistributedDataParallel; tensors of sharded models are DTensors, of which each rank has a part.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Mapping
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from ... import InputError
from .calls import tensor_text

_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)
_NOT_IN_SAFETENSORS = (torch.complex32, torch.complex128)


@dataclasses.dataclass(frozen=True)
class TrainingState:
    """``tensors``: in the memory of the model and the optimizer. ``values``: the optimizer's
    options, such as learning rates."""

    tensors: Mapping[str, torch.Tensor]
    values: Mapping[str, Any]

    def json_values(self) -> dict[str, Any]:
        """Raises InputError for an option that JSON has no form for."""
        return {name: _as_json(name, value) for name, value in self.values.items()}

    def signature(self) -> dict[str, str]:
        """Type and shape of each whole tensor but the random numbers', which belong to ranks."""
        return {name: tensor_text(tensor) for name, tensor in self.tensors.items()
                if not name.startswith("random.")}


def training_state(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, rank: int,
                   device: torch.device) -> TrainingState:
    """Of the present moment. An optimizer that made no step yet makes its state.

    Raises InputError for types that safetensors does not have."""
    of_model, of_optimizer = get_state_dict(model, optimizer or (), options=_OPTIONS)
    named = {f"model.{name}": value for name, value in of_model.items()}
    named |= {f"optimizer.{name}": value for name, value in of_optimizer.items()}
    tensors = {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}
    values = {name: value for name, value in named.items() if name not in tensors}
    for name, tensor in tensors.items():
        if tensor.dtype in _NOT_IN_SAFETENSORS:
            raise InputError(f"{name} is {tensor.dtype}, which the files of checkpoints do not "
                             f"have: hold it as torch.view_as_real() of it")
    return TrainingState({**tensors, **random_states(rank, device)}, values)


def restore(state: TrainingState, values: Mapping[str, Any], model: torch.nn.Module,
            optimizer: torch.optim.Optimizer | None, rank: int, device: torch.device) -> None:
    """Puts tensors that were read into ``state``, and the saved ``values``, where they belong."""
    merged = {name: _as_before(values.get(name, value), value)
              for name, value in state.values.items()}
    everything = {**state.tensors, **merged}

    def below(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in everything.items()
                if name.startswith(prefix)}

    set_state_dict(model, optimizer or (), model_state_dict=below("model."),
                   optim_state_dict=below("optimizer."), options=_OPTIONS)
    _set_random_states(state.tensors, rank, device)


def writable(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors as safetensors takes them: contiguous, and no two in the same memory, which tied
    parameters are."""
    found, seen = {}, set()
    for name, tensor in tensors.items():
        local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
        is_repeated = local.numel() > 0 and local.data_ptr() in seen
        seen.add(local.data_ptr())
        found[name] = tensor.clone() if is_repeated else tensor
        if not local.is_contiguous():
            found[name] = tensor.contiguous()
    return found


def random_states(rank: int, device: torch.device) -> dict[str, torch.Tensor]:
    """Of PyTorch's generators of the CPU and of the device, and of Python's module random."""
    _, words, gauss = random.getstate()
    found = {_random("cpu", rank): torch.get_rng_state(),
             _random("python", rank): torch.tensor([*words, math.nan if gauss is None else gauss],
                                                   dtype=torch.float64)}
    if device.type == "cuda":
        found[_random("cuda", rank)] = torch.cuda.get_rng_state(device)
    return found


def _set_random_states(tensors: Mapping[str, torch.Tensor], rank: int,
                       device: torch.device) -> None:
    torch.set_rng_state(tensors[_random("cpu", rank)])
    *words, gauss = tensors[_random("python", rank)].tolist()
    random.setstate((random.getstate()[0], tuple(map(int, words)),
                     None if math.isnan(gauss) else gauss))
    if device.type == "cuda":
        torch.cuda.set_rng_state(tensors[_random("cuda", rank)], device)


def _random(kind: str, rank: int) -> str:
    return f"random.{kind}.{rank}"


def _as_json(name: str, value: object) -> object:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} = {value!r} cannot be kept in a checkpoint: {error}. Use "
                         f"numbers, texts or tensors as options of the optimizer") from error


def _as_before(value: object, present: object) -> object:
    """JSON has lists where an optimizer has tuples."""
    if isinstance(value, list) and not isinstance(present, list):
        return tuple(value)
    return value
