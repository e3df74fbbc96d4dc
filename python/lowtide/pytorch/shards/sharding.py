"""Which parameters of a model lie in shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch

from ... import InputError
from .collectives import can_exchange
from .costs import CollectiveCosts
from .group import Group
from .layout import GraphLayout, ShardLayout, can_be_sharded

#: Copies of all parameters; shards of them, gathered once for a step; shards, gathered as often as
#: a plan wants; None: the fastest of these within the budget.
SHARDINGS = ("none", "gradients", "full", None)

#: Of the bytes of all parameters, the share of the smallest ones: a copy of each on every rank
#: costs few bytes, and a collective of few bytes takes as long as one of many.
_SMALL_SHARE = 0.02

#: The same where copies of many save gathers.
_HALF = 0.5

#: Of tensors in one collective: no more than this, and than a share of all.
_MOST_BUCKET_BYTES = 25 << 20
_BUCKETS = 8


def require_sharding(sharding: str | None) -> str | None:
    """Raises InputError for what is none of ``SHARDINGS``."""
    if not any(sharding is known or isinstance(sharding, str) and sharding == known
               for known in SHARDINGS):
        raise InputError(f"unknown sharding {sharding!r}: choose from none, gradients, full, or "
                         f"None, by which the fastest that fits is taken")
    return sharding


def graph_layout(named: Iterable[tuple[str, torch.Tensor]], group: Group, sharding: str,
                 costs: CollectiveCosts) -> GraphLayout:
    """``named``: by all their names, the parameters of the whole model. ``sharding``: which one,
    not None."""
    names, total = _by_tensor(named)
    copied = total if sharding == "none" else int(_SMALL_SHARE * total)
    bucket = total // _BUCKETS
    return _layout(names, copied, bucket, bucket, group, costs, sharding == "gradients")


def candidates(named: Iterable[tuple[str, torch.Tensor]], group: Group,
               costs: CollectiveCosts) -> list[GraphLayout]:
    """Layouts that are worth a comparison, from many bytes on each rank to few: copies of all
    parameters, of the smaller half, of the smallest; then collectives of one tensor each, for which
    the least is gathered at a time. Each plan decides how long gathered parameters stay."""
    names, total = _by_tensor(named)
    bucket = total // _BUCKETS
    found = [_layout(names, int(share * total), bucket_bytes, exchange_bytes, group, costs, False)
             for share, bucket_bytes, exchange_bytes in (
                 (1.0, bucket, bucket), (_HALF, bucket, bucket), (_SMALL_SHARE, bucket, bucket),
                 (_SMALL_SHARE, 0, bucket // 2))]
    return list({(tuple(layout.shards), layout.bucket_bytes): layout for layout in found}.values())


def counted_parameters(model: torch.nn.Module,
                       layout: GraphLayout) -> dict[torch.Tensor, torch.Tensor]:
    """By parameter, a tensor without memory as large as each rank has it."""
    return {parameter: _like_shard(parameter, layout.shards[name]) if name in layout.shards
            else parameter for name, parameter in model.named_parameters()}


def _like_shard(parameter: torch.Tensor, shard: ShardLayout) -> torch.Tensor:
    return torch.nn.Parameter(torch.empty(shard.shard_shape, dtype=parameter.dtype, device="meta"),
                              requires_grad=parameter.requires_grad)


def _by_tensor(named: Iterable[tuple[str, torch.Tensor]]
               ) -> tuple[dict[torch.Tensor, list[str]], int]:
    """The names of each parameter, and the bytes of all."""
    names: dict[torch.Tensor, list[str]] = {}
    for name, parameter in named:
        names.setdefault(parameter, []).append(name)
    return names, sum(parameter.nbytes for parameter in names)


def _layout(names: Mapping[torch.Tensor, list[str]], copied_bytes: int, bucket_bytes: int,
            exchange_bytes: int, group: Group, costs: CollectiveCosts,
            keeps_gathered: bool) -> GraphLayout:
    """``copied_bytes``: of the smallest parameters, of which each rank has a copy."""
    shards: dict[str, ShardLayout] = {}
    smaller = 0
    for parameter in sorted(names, key=lambda parameter: parameter.nbytes):
        smaller += parameter.nbytes
        if smaller > copied_bytes and can_be_sharded(parameter.shape, group.size):
            shards.update(dict.fromkeys(names[parameter],
                                        ShardLayout(tuple(parameter.shape), group.size)))
    return GraphLayout(group.key, shards, keeps_gathered, min(_MOST_BUCKET_BYTES, bucket_bytes),
                       exchange_bytes if can_exchange(group) else 0, costs)
