"""Which parameters of a model lie in shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from ... import InputError
from .costs import CollectiveCosts
from .group import Group
from .layout import GraphLayout, ShardLayout, can_be_sharded

#: Copies of all parameters; shards of them, gathered once for a step; shards, gathered as often as
#: a plan wants; None: the fastest of these within the budget.
SHARDINGS = ("none", "gradients", "full", None)

#: Of the bytes of all parameters, the share of the smallest ones: a copy of each on every rank
#: costs few bytes, and a collective of few bytes takes as long as one of many.
_SMALL_SHARE = 0.02

#: Of gradients that are reduced together: no more than this, and than a share of all.
_MOST_BUCKET_BYTES = 25 << 20
_BUCKETS = 8


def require_sharding(sharding: str | None) -> str | None:
    """Raises InputError for what is none of ``SHARDINGS``."""
    if not any(sharding is known or isinstance(sharding, str) and sharding == known
               for known in SHARDINGS):
        raise InputError(f"unknown sharding {sharding!r}: choose from none, gradients, full, or "
                         f"None, by which the fastest that fits is taken")
    return sharding


def graph_layout(parameters: Iterable[tuple[str, torch.Tensor]], group: Group, sharding: str,
                 costs: CollectiveCosts) -> GraphLayout:
    """``parameters``: by all their names, those of the whole model. ``sharding``: which one, not
    None."""
    named = list(parameters)
    by_tensor: dict[torch.Tensor, list[str]] = {}
    for name, parameter in named:
        by_tensor.setdefault(parameter, []).append(name)
    total = sum(parameter.nbytes for parameter in by_tensor)
    return GraphLayout(
        group.key, {} if sharding == "none" else _shards(by_tensor, total, group.size),
        sharding == "gradients", min(_MOST_BUCKET_BYTES, total // _BUCKETS), costs)


def _shards(by_tensor: Mapping[torch.Tensor, list[str]], total: int,
            ranks: int) -> dict[str, ShardLayout]:
    found, small = {}, 0
    for parameter in sorted(by_tensor, key=lambda parameter: parameter.nbytes):
        small += parameter.nbytes
        if small > _SMALL_SHARE * total and can_be_sharded(parameter.shape, ranks):
            layout = ShardLayout(tuple(parameter.shape), ranks)
            found.update(dict.fromkeys(by_tensor[parameter], layout))
    return found
