"""How a parameter lies on the ranks: a copy on each, or its rows in shards of equal size."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch

from .costs import CollectiveCosts


@dataclasses.dataclass(frozen=True)
class ShardLayout:
    """Of a parameter of ``shape``, on ``ranks`` ranks: each has ``rows`` of its rows, as DTensor's
    ``Shard(0)`` has it. Where the number of rows is no multiple of the number of ranks, the shard
    of the last rank has rows behind its own that mean nothing, so that all are of one size.

    ``reduced_in``: the type that the ranks send and add its gradients in; None: as they are made.
    """

    shape: tuple[int, ...]
    ranks: int
    reduced_in: torch.dtype | None = None

    @property
    def rows(self) -> int:
        return -(-self.shape[0] // self.ranks)

    @property
    def shard_shape(self) -> tuple[int, ...]:
        return self.rows, *self.shape[1:]

    @property
    def padding(self) -> int:
        """Rows that mean nothing, of all shards in a row."""
        return self.rows * self.ranks - self.shape[0]

    def rows_of(self, rank: int) -> int:
        """How many rows mean something on that rank."""
        return max(0, min(self.rows, self.shape[0] - rank * self.rows))


def can_be_sharded(shape: Sequence[int], ranks: int) -> bool:
    """Whether every rank gets a row."""
    return len(shape) > 0 and 0 not in shape and ShardLayout(tuple(shape), ranks).rows_of(
        ranks - 1) > 0


@dataclasses.dataclass(frozen=True)
class GraphLayout:
    """What the joint graph of a model on several ranks is made by.

    ``group``: the key of all ranks. ``sharing``: of those that have the shards of one whole
    parameter together. ``alike``: of those that have the same shards; None where no others have.
    ``shards``: by the names of parameters, how they lie; the others have a copy on each rank.
    ``keeps_gathered``: whether a parameter that was gathered for the forward pass stays until the
    backward pass has used it. ``bucket_bytes``: of what goes together in one collective, where
    there is more than one tensor. ``exchange_bytes``: of gradients in shards whose mean is made
    from what each rank received of all others; of more it is made in place, by more messages.
    ``coalesced_bytes``: of the largest tensor that goes in one message with others of its bucket.
    ``costs``: how long collectives take.
    """

    group: str
    sharing: str
    alike: str | None
    shards: Mapping[str, ShardLayout]
    keeps_gathered: bool
    bucket_bytes: int
    exchange_bytes: int
    coalesced_bytes: int
    costs: CollectiveCosts
