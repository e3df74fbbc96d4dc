"""Collectives of several tensors that each rank sends to each other one in a single message.

Rows of one rank lie together in a message, and those of one tensor together for the ops that read
it. So they are copied in between, into memory that is the result of an op, as all else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .collectives import (
    EXCHANGE,
    GATHER,
    IN_FLIGHT,
    LIBRARY,
    added_up,
    elements_of,
    gathered,
    made_to_gather,
    register,
    swapped,
)
from .group import GROUPS, Ranks

LIBRARY.define("coalesced_gather_start(Tensor[] shards, str group, ScalarType? dtype=None) "
               "-> Tensor")
LIBRARY.define("coalesced_gather_wait(Tensor pending, int[] elements, str group) -> Tensor")
LIBRARY.define("coalesced_exchange_start(Tensor[] gradients, str group) -> Tensor")
LIBRARY.define("coalesced_exchange_wait(Tensor pending, str group) -> Tensor")


def _gather_start(shards: Sequence[torch.Tensor], group: str,
                  dtype: torch.dtype | None = None) -> torch.Tensor:
    """What all ranks have, one rank after the other, of each its shards in a row. ``dtype``: that
    they are sent in, where it is not their own."""
    ranks = GROUPS[group]
    pending = made_to_gather(shards, group, dtype)
    own = pending.chunk(ranks.size)[ranks.rank]
    torch.cat([shard.view(-1) for shard in shards], out=own)
    IN_FLIGHT.start(pending, ranks, GATHER, lambda: gathered(ranks, pending))
    return pending


def _gather_wait(pending: torch.Tensor, elements: Sequence[int], group: str) -> torch.Tensor:
    """The rows of all ranks in a row, of one tensor after the other. ``elements``: of the shards.
    """
    size = GROUPS[group].size
    IN_FLIGHT.wait(pending)
    whole = torch.empty_like(pending)
    wholes = whole.split([size * number for number in elements])
    for part, shards in zip(wholes, pending.view(size, -1).split(list(elements), 1)):
        part.view(size, -1).copy_(shards)
    return whole


def _exchange_start(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """``gradients``: as of a scatter. The result has what each rank is sent, a part for this rank
    included, and then room for what comes from the others."""
    ranks = GROUPS[group]
    pending = _made_to_exchange(gradients, group)
    sent, received = _sent_and_received(pending, ranks)
    torch.cat([gradient.view(ranks.size, -1) for gradient in gradients], 1,
              out=sent.view(ranks.size, -1))
    parts = _by_rank(received, sent[:0], ranks)
    IN_FLIGHT.start(pending, ranks, EXCHANGE,
                    lambda: swapped(ranks, sent.chunk(ranks.size), parts))
    return pending


def _exchange_wait(pending: torch.Tensor, group: str) -> torch.Tensor:
    """This rank's rows of the mean, of one gradient after the other, added up by rank."""
    ranks = GROUPS[group]
    IN_FLIGHT.wait(pending)
    sent, received = _sent_and_received(pending, ranks)
    own = sent.chunk(ranks.size)[ranks.rank]
    return added_up(_by_rank(received, own, ranks), torch.empty_like(own))


def _sent_and_received(pending: torch.Tensor, group: Ranks) -> tuple[torch.Tensor, torch.Tensor]:
    part = len(pending) // (2 * group.size - 1)
    return pending[:part * group.size], pending[part * group.size:]


def _by_rank(received: torch.Tensor, own: torch.Tensor, group: Ranks) -> list[torch.Tensor]:
    """The parts of the others, and this one's in its place."""
    parts = list(received.chunk(group.size - 1))
    parts.insert(group.rank, own)
    return parts


def _made_to_exchange(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    size = GROUPS[group].size
    part = elements_of(gradients) // size
    return gradients[0].new_empty(part * (2 * size - 1))


def _fake_exchange_wait(pending, group):
    return pending.new_empty(pending.numel() // (2 * GROUPS[group].size - 1))


register("coalesced_gather_start", _gather_start, made_to_gather)
register("coalesced_gather_wait", _gather_wait,
         lambda pending, elements, group: torch.empty_like(pending))
register("coalesced_exchange_start", _exchange_start, _made_to_exchange)
register("coalesced_exchange_wait", _exchange_wait, _fake_exchange_wait)

gather_start = torch.ops.lowtide.coalesced_gather_start.default
gather_wait = torch.ops.lowtide.coalesced_gather_wait.default
exchange_start = torch.ops.lowtide.coalesced_exchange_start.default
exchange_wait = torch.ops.lowtide.coalesced_exchange_wait.default
