"""A model that is trained on all ranks of a mesh."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

import torch
import torch.distributed as dist

from .group import Group
from .layout import GraphLayout
from .placed_parameters import PlacedParameters


@dataclasses.dataclass(frozen=True, eq=False)
class ModelOnRanks:
    """``placed``: its parameters, where any lies in shards; None: each rank has plain copies."""

    group: Group
    layout: GraphLayout
    placed: PlacedParameters | None

    @classmethod
    def of(cls, model: torch.nn.Module, group: Group, layout: GraphLayout) -> ModelOnRanks:
        """All ranks begin with the parameters and buffers that the first one has."""
        _as_on_first(model, group)
        placed = PlacedParameters(model, group, layout) if layout.shards else None
        return cls(group, layout, placed)

    def in_forward(self) -> contextlib.AbstractContextManager[None]:
        """Around the model's forward."""
        return contextlib.nullcontext() if self.placed is None else self.placed.in_forward()


def _as_on_first(model: torch.nn.Module, group: Group) -> None:
    tensors: Sequence[torch.Tensor] = [*model.parameters(), *model.buffers()]
    with torch.no_grad():
        for tensor in tensors:
            dense = tensor.detach().contiguous()
            dist.broadcast(dense, group=group.data, group_src=0)
            if dense.data_ptr() != tensor.data_ptr():
                tensor.copy_(dense)
