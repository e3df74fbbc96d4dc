"""Measures what other ranks add to a step. All ranks do it together."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import os
import socket
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from .collectives import (
    EXCHANGE_START,
    GATHER_START,
    IN_FLIGHT,
    REDUCE_START,
    SCATTER_START,
    can_exchange,
)
from .costs import CollectiveCost, CollectiveCosts, LineOfBytes
from .group import Group
from .placed_parameters import passed_to_graph, placed_zeros

_ops = torch.ops.lowtide

#: Of the two sizes that are measured, from which latency and time per byte follow.
_FEW_BYTES, _MANY_BYTES = 4096, 1 << 20
#: Of few bytes each, from which the time for a further tensor follows.
_SEVERAL = 8

#: Runs of one trial: until so many were not disturbed, which took no more than so many times the
#: shortest, or for so long.
_FEWEST_RUNS, _MOST_RUNS, _MOST_SECONDS = 9, 60, 0.4
_UNDISTURBED, _LONGEST = 5, 1.5
#: Where ranks have not a processor each, so many runs, as times differ however quiet it is.
_CROWDED_RUNS = 9

#: A piece of work that stands for ops: a product of matrices with so many rows, and a sum. Beside a
#: collective so many times as long; before it, and together and alone, so many pieces, and many
#: where ranks take turns on processors.
_FACTOR_ROWS, _SUM_ELEMENTS = 128, 1 << 16
_LONGER, _PIECES, _MANY_PIECES = 1.5, 12, 128
_LEAST_SECONDS = 1e-7
#: That are passed to a graph.
_PARAMETERS = 16

_measured: dict[tuple, CollectiveCosts] = {}


def costs_of(group: Group, device: str) -> CollectiveCosts:
    """The same on all ranks. Measured once for the same ranks, so that predictions of one program
    can be compared."""
    key = group.ranks, group.backend, device
    if key not in _measured:
        _measured[key] = _Trials(group, device).costs()
    return _measured[key]


@dataclasses.dataclass(frozen=True)
class _Collective:
    """``start`` is given tensors of which all ranks have the whole, or are to; ``wait`` what it
    makes, and them."""

    start: Callable[[list[torch.Tensor], Group], torch.Tensor]
    wait: Callable[[torch.Tensor, list[torch.Tensor], Group], torch.Tensor]


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


class _Trials:
    """On the ranks of ``group``, of tensors on ``device``."""

    def __init__(self, group: Group, device: str):
        self._group, self._device = group, device
        self._factors = torch.ones(_FACTOR_ROWS, _FACTOR_ROWS, device=device)
        self._sum = torch.zeros(_SUM_ELEMENTS, device=device)
        self._is_crowded = self._share_processors()
        self._usual = _middle_of if self._is_crowded else _usual_of
        self._are_enough = _are_many if self._is_crowded else _some_are_undisturbed

    def costs(self) -> CollectiveCosts:
        meeting = self._seconds(self._meet)
        alone, together = (self._piece(all_compute, meeting) for all_compute in (False, True))
        crowding = max(1.0, together / alone) if alone else 1.0
        by_start = {name: self._cost_of(collective, together)
                    for name, collective in _COLLECTIVES.items()
                    if name != EXCHANGE_START or can_exchange(self._group)}
        return CollectiveCosts(by_start, crowding, meeting, crowding * self._per_parameter())

    def _share_processors(self) -> bool:
        """Whether some machine has more ranks than processors."""
        machine = int.from_bytes(hashlib.sha256(socket.gethostname().encode()).digest()[:7], "big")
        ranks = collections.Counter(self._meet(machine, len(os.sched_getaffinity(0))))
        return any(number > processors for (_, processors), number in ranks.items())

    def _piece(self, all_compute: bool, meeting: float) -> float:
        """Seconds of a piece of work, where all ranks compute or the first one alone. Ranks that
        share processors do not all get them at once: there it is until all are through."""
        computes = all_compute or self._group.rank == 0
        if not self._is_crowded:
            return self._seconds(lambda: self._compute(_PIECES if computes else 0)) / _PIECES

        def run() -> None:
            self._compute(_MANY_PIECES if computes else 0)
            self._meet()

        return max(0.0, self._seconds(run) - meeting) / _MANY_PIECES

    def _cost_of(self, collective: _Collective, piece: float) -> CollectiveCost:
        alone, beside = [], []
        for whole_bytes, tensors in ((_FEW_BYTES, 1), (_FEW_BYTES, _SEVERAL), (_MANY_BYTES, 1)):
            given = [self._tensor(whole_bytes) for _ in range(tensors)]
            with IN_FLIGHT.unconnected():
                own = self._run(collective, given, 0)
            took = self._run(collective, given, 0)
            pieces = 1 + int(_LONGER * took / max(piece, _LEAST_SECONDS))
            with_ops = self._run(collective, given, pieces)
            alone.append(max(0.0, took - own))
            beside.append(max(0.0, with_ops - own - pieces * piece))
        sizes = [self._made_bytes(collective, size) for size in (_FEW_BYTES, _MANY_BYTES)]
        return CollectiveCost(_line(alone, sizes), _line(beside, sizes))

    def _run(self, collective: _Collective, given: list[torch.Tensor], pieces: int) -> float:
        """Seconds of a collective with so much other work between its two ops. Work before it,
        which is not counted, lets the threads of the backend sleep and takes the processors'
        caches, as in a step."""
        def run() -> None:
            pending = collective.start(given, self._group)
            self._compute(pieces)
            collective.wait(pending, given, self._group)

        return self._seconds(run, before=lambda: self._compute(_PIECES))

    def _made_bytes(self, collective: _Collective, whole_bytes: int) -> int:
        with IN_FLIGHT.unconnected():
            return collective.start([self._tensor(whole_bytes)], self._group).nbytes

    def _per_parameter(self) -> float:
        parameter = placed_zeros(self._group, rows=1)

        def run() -> None:
            for _ in range(_PARAMETERS):
                passed_to_graph(parameter)

        return self._seconds(run) / _PARAMETERS

    def _compute(self, pieces: int) -> None:
        for _ in range(pieces):
            self._factors @ self._factors
            self._sum.add_(1.0)

    def _seconds(self, run: Callable[[], object],
                 before: Callable[[], object] = lambda: None) -> float:
        """Of a usual run, on the rank that takes the longest. ``before``: is not counted."""
        found: list[list[int]] = []
        nanoseconds = 0
        for runs in range(_MOST_RUNS + 1):
            # Each run begins with what ranks tell of the last one.
            of_ranks = self._meet(nanoseconds)
            if runs:
                found.append([one for one, in of_ranks])
            if self._are_enough(found):
                break
            before()
            begun = time.perf_counter_ns()
            run()
            nanoseconds = time.perf_counter_ns() - begun
        return 1e-9 * max(map(self._usual, zip(*found)))

    def _meet(self, *numbers: int) -> list[tuple[int, ...]]:
        return self._group.meet("measure collectives", "", *numbers)

    def _tensor(self, whole_bytes: int) -> torch.Tensor:
        size = self._group.size
        return torch.zeros(whole_bytes // 4 // size * size, device=self._device)


def _undisturbed(times: Sequence[int]) -> list[int]:
    """Other programs only add to a time, and others that are late for a rank's messages."""
    return [one for one in times if one <= _LONGEST * min(times)]


def _usual_of(times: Sequence[int]) -> float:
    return statistics.median(_undisturbed(times))


def _some_are_undisturbed(found: Sequence[Sequence[int]]) -> bool:
    """Whether there are enough runs; times by run and rank, in nanoseconds."""
    if len(found) < _FEWEST_RUNS:
        return False
    return (len(found) == _MOST_RUNS or sum(map(max, found)) > 1e9 * _MOST_SECONDS
            or all(len(_undisturbed(times)) >= _UNDISTURBED for times in zip(*found)))


def _middle_of(times: Sequence[int]) -> float:
    """Of ranks that take turns on processors."""
    return statistics.median(times)


def _are_many(found: Sequence[Sequence[int]]) -> bool:
    """The same for those ranks."""
    return len(found) == _CROWDED_RUNS


def _line(seconds: Sequence[float], sizes: Sequence[int]) -> LineOfBytes:
    """Through what was measured of few bytes, of several tensors of few bytes, and of many."""
    few, several, many = seconds
    less, more = sizes
    per_byte = max(0.0, (many - few) / max(1, more - less))
    per_tensor = max(0.0, (several - few) / (_SEVERAL - 1) - per_byte * less)
    return LineOfBytes(max(0.0, few - per_byte * less), per_byte, per_tensor)
