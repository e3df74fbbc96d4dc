"""The parameters of a model on several ranks, and what its forward is traced and run with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from ... import _runtime
from ..common.local_tensor import local_part
from .group import Group
from .layout import GraphLayout, ShardLayout

_WHY_NOT_HERE = (
    "parameter \"{}\" lies in shards on the ranks of the mesh, and only the planned graph gathers "
    "it: compute with it within what is traced as one graph (a graph break ends one), or with the "
    "parameters of the wrapped module, which are DTensors between passes")


@dataclasses.dataclass(eq=False)
class _Placed:
    """A parameter: ``registered`` between passes, where the optimizer steps it; ``traced`` is in
    its place while the model's forward runs. One that lies in shards has no bytes there."""

    name: str
    registered: torch.nn.Parameter
    traced: torch.nn.Parameter
    shard: ShardLayout | None


class PlacedParameters:
    """Those of ``model`` as DTensors on the mesh of ``group``, in shards where ``layout`` has them,
    as copies otherwise. The model's own parameters are exchanged for them, but for those that are
    DTensors already.

    ``replaced``: by the parameters that were the model's, what took their place.
    """

    def __init__(self, model: torch.nn.Module, group: Group, layout: GraphLayout):
        self._group = group
        self._slots = [(module._parameters, key, f"{prefix}.{key}" if prefix else key)
                       for prefix, module in model.named_modules(remove_duplicate=False)
                       for key, parameter in module._parameters.items() if parameter is not None]
        self.replaced: dict[torch.nn.Parameter, torch.nn.Parameter] = {}
        self._placed: dict[torch.nn.Parameter, _Placed] = {}
        for parameters, key, name in self._slots:
            parameter = parameters[key]
            if parameter not in self.replaced:
                placed = self._place(name, parameter, layout.shards.get(name))
                self.replaced[parameter] = placed.registered
                self._placed[placed.registered] = placed
            parameters[key] = self.replaced[parameter]
        self._given: dict[int, torch.Tensor] = {}
        self._traced = {name: placed.traced for (parameters, key, name) in self._slots
                        if (placed := self._placed[parameters[key]]).shard is not None}
        self._shards = {id(placed.traced): placed.shard for placed in self._placed.values()
                        if placed.shard is not None}

    def parameters(self) -> list[torch.nn.Parameter]:
        """As the model registers them between passes."""
        return list(self._placed)

    @contextlib.contextmanager
    def in_forward(self) -> Iterator[None]:
        """While it lasts, the model has the parameters that its forward is traced with, and
        ``given`` knows what it runs with."""
        registered = [parameters[key] for parameters, key, _ in self._slots]
        before = self._given
        self._given = self._here()
        for (parameters, key, _), parameter in zip(self._slots, registered):
            parameters[key] = self._placed[parameter].traced
        try:
            yield
        finally:
            for (parameters, key, _), parameter in zip(self._slots, registered):
                parameters[key] = parameter
            self._given = before

    def _here(self) -> dict[int, torch.Tensor]:
        """By the identity of what is traced, what is on this rank."""
        trained = [one for one in self._placed.values() if one.registered.requires_grad]
        frozen = [one for one in self._placed.values() if not one.registered.requires_grad]
        here = _Here.apply(self._group.size, *(one.registered for one in trained)) or ()
        return {id(one.traced): tensor for one, tensor in zip(trained, here)} | {
            id(one.traced): _with_padding(one.registered, self._group.size) for one in frozen}

    def given(self, inputs: Sequence) -> list:
        """The inputs of a traced graph as it is run: of each parameter what is on this rank."""
        return [self._given.get(id(value), value) for value in inputs]

    def as_traced(self, inputs: Sequence, names: Sequence[str]) -> list:
        """The inputs of a traced graph as it is traced: each parameter with its whole shape."""
        return [self._traced.get(name, value) if isinstance(value, torch.Tensor) else value
                for value, name in zip(inputs, names)]

    def shards_among(self, inputs: Sequence) -> Mapping[int, ShardLayout]:
        """By position, how the inputs lie that are shards of parameters."""
        shards = {id(self._given[key]): shard for key, shard in self._shards.items()
                  if key in self._given}
        return {position: shards[id(value)] for position, value in enumerate(inputs)
                if id(value) in shards}

    def _place(self, name: str, parameter: torch.nn.Parameter,
               shard: ShardLayout | None) -> _Placed:
        if isinstance(parameter, DTensor):
            traced = torch.nn.Parameter(
                torch.empty(parameter.shape, dtype=parameter.dtype, device=parameter.device),
                requires_grad=parameter.requires_grad)
            _runtime.give_up_memory(traced.data, _WHY_NOT_HERE.format(name))
            return _Placed(name, parameter, traced, shard)
        if shard is not None:
            parameter.data = parameter.data.contiguous()
        whole = parameter.data
        if shard is None:
            local, placement = whole, Replicate()
        else:
            rank = self._group.rank
            rows = shard.rows_of(rank)
            padded = whole.new_zeros(shard.shard_shape)
            local, placement = padded[:rows], Shard(0)
            local.copy_(whole[rank * shard.rows:rank * shard.rows + rows])
        distributed = DTensor.from_local(local, self._group.mesh, [placement], run_check=False,
                                         shape=whole.shape, stride=whole.stride())
        registered = torch.nn.Parameter(distributed, requires_grad=parameter.requires_grad)
        if shard is not None:
            _runtime.give_up_memory(parameter.data, _WHY_NOT_HERE.format(name))
        return _Placed(name, registered, parameter, shard)


class _Here(torch.autograd.Function):
    """From parameters that are DTensors to what of them is on this rank, with all rows that its
    shard has; gradients go the other way."""

    @staticmethod
    def forward(ctx, ranks: int, *parameters: DTensor):
        ctx.set_materialize_grads(False)
        ctx.parameters = [(parameter.device_mesh, parameter.placements, parameter.shape,
                           parameter.stride(), local_part(parameter).shape)
                          for parameter in parameters]
        return tuple(_with_padding(parameter, ranks) for parameter in parameters)

    @staticmethod
    def backward(ctx, *gradients):
        return None, *(None if gradient is None else _distributed(gradient, *parameter)
                       for gradient, parameter in zip(gradients, ctx.parameters))


def _distributed(gradient: torch.Tensor, mesh, placements, shape, stride, local_shape) -> DTensor:
    if local_shape and gradient.shape != local_shape:
        gradient = gradient[:local_shape[0]]
    return DTensor.from_local(gradient, mesh, placements, run_check=False, shape=shape,
                              stride=stride)


def _with_padding(parameter: DTensor, ranks: int) -> torch.Tensor:
    """What is on this rank of a parameter, with rows behind it that mean nothing where other ranks
    have more: they are there already, or are made."""
    local = parameter._local_tensor.detach()
    if parameter.placements[0].is_replicate():
        return local
    shape = ShardLayout(tuple(parameter.shape), ranks).shard_shape
    if local.shape == shape:
        return local if local.is_contiguous() else local.contiguous()
    needed = local.element_size() * (local.storage_offset() + torch.Size(shape).numel())
    if local.is_contiguous() and local.untyped_storage().nbytes() >= needed:
        return local.as_strided(shape, local.stride())
    padded = local.new_zeros(shape)
    padded[:local.shape[0]].copy_(local)
    parameter._local_tensor = padded[:local.shape[0]]
    return padded
