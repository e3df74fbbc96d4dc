"""A model that is trained on all ranks of a mesh."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.distributed as dist

from .accumulation import LocalAccumulation
from .group import Group
from .layout import GraphLayout
from .placed_parameters import PlacedParameters


class ModelOnRanks:
    """``placed``: its parameters, where any lies in shards; None: each rank has plain copies.
    ``parameters``: gives what is counted as its parameters."""

    def __init__(self, group: Group, placed: PlacedParameters | None,
                 parameters: Callable[[], Iterable[torch.Tensor]]):
        self.placed, self.parameters = placed, parameters
        self._copies = LocalAccumulation(group, parameters) if placed is None else None

    @classmethod
    def of(cls, model: torch.nn.Module, group: Group, layout: GraphLayout) -> ModelOnRanks:
        """The model's parameters are placed on the mesh. All ranks begin with the parameters and
        buffers that the first one has."""
        _as_on_first(model, group)
        if not layout.shards:
            return cls(group, None, model.parameters)
        placed = PlacedParameters(model, group, layout)
        return cls(group, placed, placed.parameters)

    @classmethod
    def placed_before(cls, model: torch.nn.Module, group: Group,
                      layout: GraphLayout) -> ModelOnRanks:
        """The model's parameters are DTensors in shards, and stay so."""
        placed = PlacedParameters(model, group, layout)
        return cls(group, placed, placed.parameters)

    def in_forward(self) -> contextlib.AbstractContextManager[None]:
        """Around the model's forward."""
        if self.placed is not None:
            return self.placed.in_forward()
        self._copies.reduce_what_is_left()
        return contextlib.nullcontext()

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Backward passes in it may leave gradients unreduced until the next forward pass behind
        it. Gradients of shards are reduced all the same: nobody has room for whole ones."""
        return contextlib.nullcontext() if self._copies is None else self._copies.no_sync()


def _as_on_first(model: torch.nn.Module, group: Group) -> None:
    tensors: Sequence[torch.Tensor] = [*model.parameters(), *model.buffers()]
    with torch.no_grad():
        for tensor in tensors:
            dense = tensor.detach().contiguous()
            dist.broadcast(dense, group=group.data, group_src=0)
            if dense.data_ptr() != tensor.data_ptr():
                tensor.copy_(dense)
