"""Runs a graph without a backward pass on parameters that lie in shards."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import torch
from torch import fx
from torch.fx.node import map_aggregate

from .layout import ShardLayout

_ops = torch.ops.lowtide


@dataclasses.dataclass(frozen=True)
class _InShards:
    tensor: torch.Tensor
    layout: ShardLayout


class Gathering(fx.Interpreter):
    """Gathers each parameter for the op that reads it: ``shards`` says, by position, which of the
    graph's arguments are shards, on the ranks of ``group``."""

    def __init__(self, module: fx.GraphModule, shards: Mapping[int, ShardLayout], group: str):
        super().__init__(module)
        self._shards, self._group = shards, group

    def run_on(self, arguments: Sequence) -> object:
        return self.run(*(_InShards(value, self._shards[position])
                          if position in self._shards else value
                          for position, value in enumerate(arguments)))

    def fetch_args_kwargs_from_env(self, node: fx.Node):
        args, kwargs = super().fetch_args_kwargs_from_env(node)
        return map_aggregate(args, self._gathered), map_aggregate(kwargs, self._gathered)

    def _gathered(self, value):
        if not isinstance(value, _InShards):
            return value
        whole = _ops.gather_wait(_ops.gather_start([value.tensor], self._group))
        return whole[:math.prod(value.layout.shape)].view(value.layout.shape)
