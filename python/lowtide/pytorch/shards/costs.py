"""How long collectives take on a group, measured once."""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Callable

import torch

from ... import Graph
from .collectives import GATHER_START, REDUCE_START, SCATTER_START
from .group import Group

_ops = torch.ops.lowtide

#: Of the two sizes that are measured, from which latency and time per byte follow.
_FEW_BYTES, _MANY_BYTES = 4096, 1 << 20
_REPEATS = 5
#: Beside a collective so many times as long run products of matrices with so many rows.
_LONGER, _FACTOR_ROWS, _PRODUCTS = 1.5, 128, 8
_LEAST_SECONDS = 1e-7
#: In a second, the unit of costs.
MICROSECONDS = 1e6


@dataclasses.dataclass(frozen=True)
class CollectiveCost:
    """Seconds of one collective by the bytes of the whole tensor. ``busy``: the part of them in
    which it takes the processors that ops need, so that these do not hide it."""

    latency: float
    per_byte: float
    busy: float = 1.0

    def of(self, whole_bytes: int) -> float:
        return self.latency + self.per_byte * whole_bytes

    def hidden(self, whole_bytes: int) -> float:
        """What ops hide of it at most."""
        return (1.0 - self.busy) * self.of(whole_bytes)


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
        found = {}
        for name in _HALVES:
            few, many = (_seconds(group, device, _whole(name), size)
                         for size in (_FEW_BYTES, _MANY_BYTES))
            per_byte = max(0.0, (many - few) / (_MANY_BYTES - _FEW_BYTES))
            found[name] = CollectiveCost(max(0.0, few - per_byte * _FEW_BYTES), per_byte,
                                         _busy_part(group, device, name, many))
        return cls(found)

    def added_to(self, measured: Graph) -> Graph:
        """A graph whose ops were measured without communication, with the time that it takes in the
        ops that start it: so a plan does not start what nobody waits for."""
        document = json.loads(measured.format())
        tensors = document["tensors"]
        for op in document["ops"]:
            if op["type"] in self.by_start:
                whole = tensors[op["outputs"][0]]["bytes"]
                op["cost"] += MICROSECONDS * self.by_start[op["type"]].of(whole)
        return Graph.parse(json.dumps(document), f"the graph of {measured.name}")


_measured: dict[tuple, CollectiveCosts] = {}


def _seconds(group: Group, device: str, run: Callable, whole_bytes: int) -> float:
    tensor = _tensor(group, device, whole_bytes)
    return _slowest(group, lambda: run(tensor, group))


def _busy_part(group: Group, device: str, name: str, seconds: float) -> float:
    """Of a collective that takes so many seconds alone: by how much ops take longer beside it."""
    tensor = _tensor(group, device, _MANY_BYTES)
    factors = torch.ones(_FACTOR_ROWS, _FACTOR_ROWS, device=device)

    def compute(times: int) -> None:
        for _ in range(times):
            factors @ factors

    one = _slowest(group, lambda: compute(_PRODUCTS)) / _PRODUCTS
    times = 1 + int(_LONGER * seconds / max(one, _LEAST_SECONDS))
    start, wait = _HALVES[name]

    def both() -> None:
        pending = start(tensor, group)
        compute(times)
        wait(pending, group)

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


#: By the op that starts a collective: how it is started, and waited for.
_HALVES: dict[str, tuple[Callable, Callable]] = {
    GATHER_START: (lambda tensor, group: _ops.gather_start([tensor.chunk(group.size)[0]],
                                                           group.key),
                   lambda pending, group: _ops.gather_wait(pending)),
    REDUCE_START: (lambda tensor, group: _ops.reduce_start([tensor], group.key),
                   lambda pending, group: _ops.reduce_wait(pending)),
    SCATTER_START: (lambda tensor, group: _ops.scatter_start([tensor], group.key),
                    lambda pending, group: _ops.scatter_wait(pending, group.key))}


def _whole(name: str) -> Callable[[torch.Tensor, Group], None]:
    start, wait = _HALVES[name]
    return lambda tensor, group: wait(start(tensor, group), group)
