"""How long collectives take on a group, measured once."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable

import torch

from ... import Graph
from .collectives import (
    EXCHANGE_START,
    GATHER_START,
    IN_FLIGHT,
    REDUCE_START,
    SCATTER_START,
    can_exchange,
)
from .group import Group

_ops = torch.ops.lowtide

#: Of the two sizes that are measured, from which latency and time per byte follow.
_FEW_BYTES, _MANY_BYTES = 4096, 1 << 20
_REPEATS = 5
#: Of few bytes each, from which the time for a further tensor follows.
_SEVERAL = 8
#: Beside a collective so many times as long run products of matrices with so many rows.
_LONGER, _FACTOR_ROWS, _PRODUCTS = 1.5, 128, 8
_LEAST_SECONDS = 1e-7
#: In a second, the unit of costs.
MICROSECONDS = 1e6


@dataclasses.dataclass(frozen=True)
class CollectiveCost:
    """Seconds of one collective by the bytes that it makes, and by how many tensors it is of:
    ``per_tensor`` for each but the first. ``busy``: the part of them in which it takes the
    processors that ops need, so that these do not hide it."""

    latency: float
    per_byte: float
    busy: float = 1.0
    per_tensor: float = 0.0

    def of(self, made_bytes: int, tensors: int = 1) -> float:
        return self.latency + (tensors - 1) * self.per_tensor + self.per_byte * made_bytes

    def hidden(self, made_bytes: int, tensors: int = 1) -> float:
        """What ops hide of it at most."""
        return (1.0 - self.busy) * self.of(made_bytes, tensors)


@dataclasses.dataclass(frozen=True)
class CollectiveCosts:
    """By the op that starts it."""

    by_start: dict[str, CollectiveCost]

    @classmethod
    def measured(cls, group: Group, device: str) -> CollectiveCosts:
        """By all ranks together: the time of the slowest, the same on all. Measured once for the
        same ranks, so that predictions of one program can be compared."""
        key = group.ranks, group.backend, device
        if key not in _measured:
            _measured[key] = cls._measured_now(group, device)
        return _measured[key]

    @classmethod
    def _measured_now(cls, group: Group, device: str) -> CollectiveCosts:
        return cls({name: _cost_of(collective, group, device)
                    for name, collective in _COLLECTIVES.items()
                    if name != EXCHANGE_START or can_exchange(group)})

    def added_to(self, measured: Graph) -> Graph:
        """A graph whose ops were measured without communication, with the time that it takes in the
        ops that start it: so a plan does not start what nobody waits for."""
        document = json.loads(measured.format())
        tensors = document["tensors"]
        for op in document["ops"]:
            if op["type"] in self.by_start:
                made = tensors[op["outputs"][0]]["bytes"]
                op["cost"] += MICROSECONDS * self.by_start[op["type"]].of(made, len(op["inputs"]))
        return Graph.parse(json.dumps(document), f"the graph of {measured.name}")


_measured: dict[tuple, CollectiveCosts] = {}


@dataclasses.dataclass(frozen=True)
class _Collective:
    """``start`` is given tensors of which all ranks have the whole, or are to; ``wait`` what it
    makes, and them."""

    start: Callable[[list[torch.Tensor], Group], torch.Tensor]
    wait: Callable[[torch.Tensor, list[torch.Tensor], Group], torch.Tensor]

    def run(self, tensors: list[torch.Tensor], group: Group) -> None:
        self.wait(self.start(tensors, group), tensors, group)


_COLLECTIVES = {
    GATHER_START: _Collective(
        lambda tensors, group: _ops.gather_start(
            [tensor.chunk(group.size)[0] for tensor in tensors], group.key),
        lambda pending, tensors, group: _ops.gather_wait(pending)),
    REDUCE_START: _Collective(
        lambda tensors, group: _ops.reduce_start(tensors, group.key),
        lambda pending, tensors, group: _ops.reduce_wait(pending)),
    SCATTER_START: _Collective(
        lambda tensors, group: _ops.scatter_start(tensors, group.key),
        lambda pending, tensors, group: _ops.scatter_wait(pending, group.key)),
    EXCHANGE_START: _Collective(
        lambda tensors, group: _ops.exchange_start(tensors, group.key),
        lambda pending, tensors, group: _ops.exchange_wait(pending, tensors, group.key))}


def _cost_of(collective: _Collective, group: Group, device: str) -> CollectiveCost:
    def seconds(whole_bytes: int, tensors: int = 1) -> float:
        given = [_tensor(group, device, whole_bytes) for _ in range(tensors)]
        return _slowest(group, lambda: collective.run(given, group))

    few, several, many = (seconds(_FEW_BYTES), seconds(_FEW_BYTES, _SEVERAL), seconds(_MANY_BYTES))
    less, more = (_made_bytes(collective, group, device, size)
                  for size in (_FEW_BYTES, _MANY_BYTES))
    per_byte = max(0.0, (many - few) / max(1, more - less))
    per_tensor = max(0.0, (several - few) / (_SEVERAL - 1) - per_byte * less)
    return CollectiveCost(max(0.0, few - per_byte * less), per_byte,
                          _busy_part(collective, group, device, many), per_tensor)


def _made_bytes(collective: _Collective, group: Group, device: str, whole_bytes: int) -> int:
    with IN_FLIGHT.unconnected():
        return collective.start([_tensor(group, device, whole_bytes)], group).nbytes


def _busy_part(collective: _Collective, group: Group, device: str, seconds: float) -> float:
    """Of a collective that takes so many seconds alone: by how much ops take longer beside it."""
    tensors = [_tensor(group, device, _MANY_BYTES)]
    factors = torch.ones(_FACTOR_ROWS, _FACTOR_ROWS, device=device)

    def compute(times: int) -> None:
        for _ in range(times):
            factors @ factors

    one = _slowest(group, lambda: compute(_PRODUCTS)) / _PRODUCTS
    times = 1 + int(_LONGER * seconds / max(one, _LEAST_SECONDS))

    def both() -> None:
        pending = collective.start(tensors, group)
        compute(times)
        collective.wait(pending, tensors, group)

    more = _slowest(group, both) - _slowest(group, lambda: compute(times))
    return min(1.0, max(0.0, more / max(seconds, _LEAST_SECONDS)))


def _slowest(group: Group, run: Callable[[], None]) -> float:
    """Seconds of the slowest rank, the median of a few times."""
    found = []
    for _ in range(_REPEATS):
        group.meet("measure collectives")
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
    [nanoseconds] = group.largest("compare times", "", int(statistics.median(found) * 1e9))
    return nanoseconds * 1e-9


def _tensor(group: Group, device: str, whole_bytes: int) -> torch.Tensor:
    return torch.zeros(whole_bytes // 4 // group.size * group.size, device=device)
