"""Which parameters of a model lie in shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import torch

from ... import InputError
from .collectives import GATHER_START, can_exchange
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
#: Larger shares are compared with it: ranks wait for each other more seldom, and more is gathered
#: at a time. They are no larger than what takes so many times as long to send as the latency.
_FEWER_BUCKETS = 3, 1
_LATENCIES = 10
#: Times as many bytes as of gradients are exchanged at most, with rows that mean nothing.
_MOST_PADDED = 2
#: Where no time was seen, as within one rank.
_LEAST_PER_BYTE = 1e-15


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
    return _layout(names, int(_copied_share(sharding) * total), _usual(total), group, costs,
                   sharding == "gradients")


def candidates(named: Iterable[tuple[str, torch.Tensor]], group: Group, sharding: str | None,
               costs: CollectiveCosts, coalesce: bool) -> list[GraphLayout]:
    """Layouts that are worth a comparison, from many bytes on each rank to few. Where no sharding
    is asked for, copies of all parameters, of the smaller half, of the smallest; of each, the usual
    buckets and, with ``coalesce``, larger ones whose small tensors go in one message; of the last,
    also the largest, and collectives of one tensor each, for which the least is gathered at a time.
    Each plan decides how long gathered parameters stay, but by "gradients"."""
    names, total = _by_tensor(named)
    shares = (1.0, _HALF, _SMALL_SHARE) if sharding is None else (_copied_share(sharding),)
    larger = [_larger(total, number, costs) for number in _FEWER_BUCKETS] if coalesce else []
    compared = [(share, buckets) for share in shares for buckets in (_usual(total), *larger[:1])]
    compared += [(shares[-1], buckets) for buckets in larger[1:]]
    if coalesce or sharding is None:
        compared.append((shares[-1], _Buckets(0, total // _BUCKETS // 2, 0)))
    found = [_layout(names, int(share * total), buckets, group, costs, sharding == "gradients")
             for share, buckets in compared]
    return list({(tuple(layout.shards), layout.bucket_bytes, layout.coalesced_bytes): layout
                 for layout in reversed(found)}.values())[::-1]


def _copied_share(sharding: str) -> float:
    return 1.0 if sharding == "none" else _SMALL_SHARE


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


@dataclasses.dataclass(frozen=True)
class _Buckets:
    """As of a ``GraphLayout``."""

    bucket_bytes: int
    exchange_bytes: int
    coalesced_bytes: int


def _usual(total: int) -> _Buckets:
    """A message for each tensor."""
    share = total // _BUCKETS
    return _Buckets(share, share, 0)


def _larger(total: int, number: int, costs: CollectiveCosts) -> _Buckets:
    """So many, unless others are long enough; small tensors go in one message."""
    alone = costs.by_start[GATHER_START].alone
    long_bytes = _LATENCIES * alone.latency / max(alone.per_byte, _LEAST_PER_BYTE)
    size = max(total // _BUCKETS, min(total // number, int(long_bytes)))
    return _Buckets(size, _MOST_PADDED * size, costs.coalesced_bytes)


def _layout(names: Mapping[torch.Tensor, list[str]], copied_bytes: int, buckets: _Buckets,
            group: Group, costs: CollectiveCosts, keeps_gathered: bool) -> GraphLayout:
    """``copied_bytes``: of the smallest parameters, of which each rank has a copy."""
    shards: dict[str, ShardLayout] = {}
    sharing, alike = group.sharing, group.alike
    smaller = small = 0
    for parameter in sorted(names, key=lambda parameter: parameter.nbytes):
        smaller += parameter.nbytes
        if smaller > copied_bytes and can_be_sharded(parameter.shape, sharing.size):
            shards.update(dict.fromkeys(names[parameter],
                                        ShardLayout(tuple(parameter.shape), sharing.size)))
            small += parameter.nbytes <= buckets.coalesced_bytes
    return GraphLayout(group.key, sharing.key, None if alike is None else alike.key, shards,
                       keeps_gathered,
                       min(_MOST_BUCKET_BYTES, buckets.bucket_bytes),
                       buckets.exchange_bytes if can_exchange(sharing) else 0,
                       buckets.coalesced_bytes if small > 1 else 0, costs)
