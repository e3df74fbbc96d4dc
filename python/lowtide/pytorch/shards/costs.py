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
_MICROSECONDS = 1e6


@dataclasses.dataclass(frozen=True)
class CollectiveCost:
    """Seconds of one collective by the bytes of the whole tensor."""

    latency: float
    per_byte: float

    def of(self, whole_bytes: int) -> float:
        return self.latency + self.per_byte * whole_bytes


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
        for name, run in _RUNS.items():
            few, many = (_seconds(group, device, run, size) for size in (_FEW_BYTES, _MANY_BYTES))
            per_byte = max(0.0, (many - few) / (_MANY_BYTES - _FEW_BYTES))
            found[name] = CollectiveCost(max(0.0, few - per_byte * _FEW_BYTES), per_byte)
        return cls(found)

    def added_to(self, measured: Graph) -> Graph:
        """A graph whose ops were measured without communication, with the time that it takes in the
        ops that start it: so a plan does not start what nobody waits for."""
        document = json.loads(measured.format())
        tensors = document["tensors"]
        for op in document["ops"]:
            if op["type"] in self.by_start:
                whole = tensors[op["outputs"][0]]["bytes"]
                op["cost"] += _MICROSECONDS * self.by_start[op["type"]].of(whole)
        return Graph.parse(json.dumps(document), f"the graph of {measured.name}")


_measured: dict[tuple, CollectiveCosts] = {}


def _seconds(group: Group, device: str, run: Callable, whole_bytes: int) -> float:
    elements = whole_bytes // 4 // group.size * group.size
    tensor = torch.zeros(elements, device=device)
    found = []
    for _ in range(_REPEATS):
        group.meet("measure collectives")
        begun = time.perf_counter()
        run(tensor, group)
        found.append(time.perf_counter() - begun)
    [nanoseconds] = group.largest("compare times", "", int(statistics.median(found) * 1e9))
    return nanoseconds * 1e-9


def _gather(tensor: torch.Tensor, group: Group) -> None:
    shard = tensor.chunk(group.size)[0]
    _ops.gather_wait(_ops.gather_start([shard], group.key))


def _reduce(tensor: torch.Tensor, group: Group) -> None:
    _ops.reduce_wait(_ops.reduce_start([tensor], group.key))


def _scatter(tensor: torch.Tensor, group: Group) -> None:
    _ops.scatter_wait(_ops.scatter_start([tensor], group.key), group.key)


_RUNS = {GATHER_START: _gather, REDUCE_START: _reduce, SCATTER_START: _scatter}
