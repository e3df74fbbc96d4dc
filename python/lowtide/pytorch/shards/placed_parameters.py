"""The parameters of a model on several ranks, and what its forward is traced and run with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec

from ... import _runtime
from ..common.local_tensor import lies_in_shards, local_part
from ..ranks.errors import collective_named
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
        return {id(one.traced): _Here.apply(one.registered) if one.registered.requires_grad
                else on_this_rank(one.registered) for one in self._placed.values()}

    def give_back(self) -> dict[torch.nn.Parameter, torch.nn.Parameter]:
        """The model has the parameters that were its own before, whole and without gradients: by
        those that had their place. All ranks do this together."""
        for parameters, key, _ in self._slots:
            parameters[key] = self._placed[parameters[key]].traced
        for one in self._placed.values():
            if one.shard is not None:
                one.traced.data = whole_of(one.registered)
            one.traced.requires_grad_(one.registered.requires_grad)
        return {one.registered: one.traced for one in self._placed.values()}

    def like(self, value: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
        """A tensor as large as a parameter, which all ranks have, as the parameter lies."""
        shard = self._placed[parameter].shard
        return _on_mesh(value if shard is None else value.contiguous(), self._group, shard)

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
        registered = torch.nn.Parameter(_on_mesh(parameter.data, self._group, shard),
                                        requires_grad=parameter.requires_grad)
        if shard is not None:
            _runtime.give_up_memory(parameter.data, _WHY_NOT_HERE.format(name))
        return _Placed(name, registered, parameter, shard)


def whole_of(tensor: torch.Tensor) -> torch.Tensor:
    """What all ranks have of a DTensor, gathered by all of them together; any other as it is."""
    tensor = tensor.detach()
    if not isinstance(tensor, DTensor):
        return tensor
    with collective_named("a gather of a whole tensor", dist.get_rank(), dist.get_world_size()):
        return tensor.full_tensor()


def _on_mesh(whole: torch.Tensor, group: Group, shard: ShardLayout | None) -> DTensor:
    """A tensor that all ranks have, in shards or as the copies that they are."""
    placements: list[Placement] = [Replicate() for _ in range(group.mesh.ndim)]
    local = whole
    if shard is not None:
        rows, first = shard.rows_of(group.sharing.rank), group.sharing.rank * shard.rows
        local = whole.new_zeros(shard.shard_shape)[:rows]
        local.copy_(whole[first:first + rows])
        placements[-1] = Shard(0)
    return DTensor.from_local(local, group.mesh, placements, run_check=False,
                              shape=whole.shape, stride=whole.stride())


class _Here(torch.autograd.Function):
    """From a parameter that is a DTensor to what of it is on this rank, with all rows that its
    shard has; its gradient goes the other way. One by one, so that autograd knows which get one."""

    @staticmethod
    def forward(ctx, parameter: DTensor):
        ctx.set_materialize_grads(False)
        ctx.parameter = _Lying.of(parameter)
        return on_this_rank(parameter)

    @staticmethod
    def backward(ctx, gradient):
        return None if gradient is None else ctx.parameter.of_all_ranks(gradient)


def passed_to_graph(parameter: torch.nn.Parameter) -> None:
    """What is done with a parameter and its gradient in each step, beside the graph."""
    here = _Here.apply(parameter)
    here.backward(here.detach())
    parameter.grad = None


def placed_zeros(group: Group, rows: int) -> torch.nn.Parameter:
    """A parameter in shards with so many rows of one element on each rank."""
    shape = (rows * group.sharing.size, 1)
    whole = torch.zeros(shape, device=group.mesh.device_type)
    return torch.nn.Parameter(_on_mesh(whole, group, ShardLayout(shape, group.sharing.size)))


@dataclasses.dataclass(frozen=True)
class _Lying:
    """How a parameter lies on the ranks."""

    spec: DTensorSpec
    local_shape: torch.Size

    @classmethod
    def of(cls, parameter: DTensor) -> _Lying:
        return cls(parameter._spec, local_part(parameter).shape)

    def of_all_ranks(self, here: torch.Tensor) -> DTensor:
        """What each rank has a part of, without the rows that mean nothing. As ``from_local``,
        which takes many times as long: it is differentiable, and makes a new ``spec``."""
        if self.local_shape and here.shape != self.local_shape:
            here = here[:self.local_shape[0]]
        return DTensor(here, self.spec, requires_grad=False)


def lying_as(parameter: torch.Tensor, here: torch.Tensor) -> torch.Tensor:
    """A gradient as a graph has it on this rank, as the parameter lies."""
    return _Lying.of(parameter).of_all_ranks(here) if isinstance(parameter, DTensor) else here


def on_this_rank(parameter: torch.Tensor) -> torch.Tensor:
    """What a graph is given of a parameter: of a DTensor what is on this rank, with rows behind it
    that mean nothing where other ranks have more. They are there already, or are made."""
    if not isinstance(parameter, DTensor):
        return parameter
    local = parameter._local_tensor.detach()
    if not lies_in_shards(parameter):
        return local
    shape = ShardLayout(tuple(parameter.shape), parameter.device_mesh.shape[-1]).shard_shape
    if local.shape == shape:
        return local if local.is_contiguous() else local.contiguous()
    needed = local.element_size() * (local.storage_offset() + torch.Size(shape).numel())
    if local.is_contiguous() and local.untyped_storage().nbytes() >= needed:
        return local.as_strided(shape, local.stride())
    padded = local.new_zeros(shape)
    padded[:local.shape[0]].copy_(local)
    parameter._local_tensor = padded[:local.shape[0]]
    return padded
