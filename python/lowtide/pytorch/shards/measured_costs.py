"""Measures what other ranks add to a step. All ranks do it together."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import math
import operator
import os
import socket
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

from . import coalesced
from .collectives import (
    COALESCED_EXCHANGE_START,
    COALESCED_GATHER_START,
    EXCHANGE_START,
    GATHER_START,
    IN_FLIGHT,
    REDUCE_START,
    SCATTER_START,
    can_exchange,
)
from .costs import CollectiveCost, CollectiveCosts, Crowding, LineOfBytes
from .group import Group, Ranks
from .placed_parameters import passed_to_graph, placed_zeros

_ops = torch.ops.lowtide

#: Of the two sizes that are measured, from which latency and time per byte follow.
_FEW_BYTES, _MANY_BYTES = 4096, 4 << 20
#: Of few bytes each, from which the time for a further tensor follows.
_SEVERAL = 8
#: Bytes of each tensor, and how many.
_POINTS = (_FEW_BYTES, 1), (_FEW_BYTES, _SEVERAL), (_MANY_BYTES, 1)

#: Rounds of all trials: until so many runs of each were not disturbed, which took no more than so
#: many times the shortest, or for so long.
_FEWEST_RUNS, _MOST_RUNS, _MOST_SECONDS = 9, 100, 4.0
_UNDISTURBED, _LONGEST = 5, 1.5
#: Where ranks have not a processor each, so many runs, as times differ however quiet it is.
_CROWDED_RUNS = 9

#: A piece of work that stands for ops: a product of matrices with so many rows, and a sum. So many
#: before a collective; in a stretch of work; and in one where ranks take turns on processors.
_FACTOR_ROWS, _SUM_ELEMENTS = 128, 1 << 16
_PIECES, _PIECES_OF_STRETCH, _MANY_PIECES = 12, 48, 128
#: A piece of an op that only reads and writes memory, more of it than processors' caches hold; so
#: many in stretches that take about as long.
_FAR_ELEMENTS = 1 << 23
_FAR_PIECES, _MANY_FAR_PIECES = 1, 8
#: Of a copy, where none was seen.
_LEAST_PER_BYTE = 1e-12
#: So often ranks meet in a stretch of work, to see how much later they come for it, after so many
#: pieces each time, which take about as long as what a step does between two collectives.
_MEETINGS, _PIECES_BETWEEN = 8, 36
#: That are passed to a graph.
_PARAMETERS = 16

_measured: dict[tuple, CollectiveCosts] = {}


def costs_of(group: Group, device: str) -> CollectiveCosts:
    """The same on all ranks. Measured once for the same ranks, so that predictions of one program
    can be compared."""
    key = group.ranks, group.sharing.ranks, group.backend, device
    if key not in _measured:
        _measured[key] = _Trials(group, device).costs()
    return _measured[key]


@dataclasses.dataclass(frozen=True)
class _Collective:
    """``start`` is given tensors of which all ranks have the whole, or are to; ``wait`` what it
    makes, and them. ``among``: which ranks of a group it goes over."""

    start: Callable[[list[torch.Tensor], Ranks], torch.Tensor]
    wait: Callable[[torch.Tensor, list[torch.Tensor], Ranks], torch.Tensor]
    among: Callable[[Group], Ranks] = operator.attrgetter("sharing")


def _shards(tensors: Iterable[torch.Tensor], group: Ranks) -> list[torch.Tensor]:
    return [tensor.chunk(group.size)[0] for tensor in tensors]


_COLLECTIVES = {
    GATHER_START: _Collective(
        lambda tensors, group: _ops.gather_start(_shards(tensors, group), group.key),
        lambda pending, tensors, group: _ops.gather_wait(pending)),
    COALESCED_GATHER_START: _Collective(
        lambda tensors, group: coalesced.gather_start(_shards(tensors, group), group.key),
        lambda pending, tensors, group: coalesced.gather_wait(
            pending, [tensor.numel() // group.size for tensor in tensors], group.key)),
    REDUCE_START: _Collective(
        lambda tensors, group: _ops.reduce_start(tensors, group.key),
        lambda pending, tensors, group: _ops.reduce_wait(pending), lambda group: group),
    SCATTER_START: _Collective(
        lambda tensors, group: _ops.scatter_start(tensors, group.key),
        lambda pending, tensors, group: _ops.scatter_wait(pending, group.key)),
    EXCHANGE_START: _Collective(
        lambda tensors, group: _ops.exchange_start(tensors, group.key),
        lambda pending, tensors, group: _ops.exchange_wait(pending, tensors, group.key)),
    COALESCED_EXCHANGE_START: _Collective(
        lambda tensors, group: coalesced.exchange_start(tensors, group.key),
        lambda pending, tensors, group: coalesced.exchange_wait(pending, group.key))}

#: By the collective of a message for each tensor, the one that coalesces them.
_COALESCED = {GATHER_START: COALESCED_GATHER_START, EXCHANGE_START: COALESCED_EXCHANGE_START}


@dataclasses.dataclass(frozen=True)
class _Times:
    """Of a run, in seconds or nanoseconds: until it is over; of the processors, by the thread that
    runs ops, and by the others of the process."""

    wall: float
    own: float
    others: float

    def less(self, other: _Times) -> _Times:
        return _Times(max(0.0, self.wall - other.wall), max(0.0, self.own - other.own),
                      max(0.0, self.others - other.others))


#: By the type of collective and its place among the points, whether ranks talk.
_Key = tuple[str, int, bool]


class _Trials:
    """On the ranks of ``group``, of tensors on ``device``."""

    def __init__(self, group: Group, device: str):
        self._group, self._device = group, device
        self._factors = torch.ones(_FACTOR_ROWS, _FACTOR_ROWS, device=device)
        self._sum = torch.zeros(_SUM_ELEMENTS, device=device)
        self._far = torch.zeros(_FAR_ELEMENTS, device=device)
        ranks, processors = self._ranks_and_processors()
        self._is_crowded = ranks > processors
        self._ranks_per_processor = ranks / processors
        self._usual: Callable[[Sequence[int]], float] = (
            statistics.median if self._is_crowded else _usual_of)
        self._are_enough = _are_many if self._is_crowded else _some_are_undisturbed

    def costs(self) -> CollectiveCosts:
        parameter = placed_zeros(self._group, rows=1)
        small = self._usual_times({
            "meeting": self._meet, "parameter": lambda: _pass_several(parameter),
            "apart": lambda: self._pieces_and_meetings(1),
            "in step": lambda: self._pieces_and_meetings(_MEETINGS)})
        meeting = small["meeting"].wall
        in_step = max(meeting, (small["in step"].wall - small["apart"].wall) / (_MEETINGS - 1))
        crowding = self._crowding(meeting)
        times = self._usual_times({
            (name, place, talks): self._collective(name, *point, talks) for name in self._names()
            for place, point in enumerate(_POINTS) for talks in (False, True)}, self._work)
        by_start = {name: self._cost_of(name, times, in_step - meeting) for name in self._names()}
        return CollectiveCosts(by_start, crowding, in_step,
                               crowding.computing * small["parameter"].wall / _PARAMETERS,
                               _coalesced_bytes(times))

    def _names(self) -> list[str]:
        return [name for name in _COLLECTIVES
                if can_exchange(self._group.sharing)
                or name not in (EXCHANGE_START, COALESCED_EXCHANGE_START)]

    def _crowding(self, meeting: float) -> Crowding:
        """Stretches that end with a meeting are compared without it. The median of all runs counts:
        one that others disturb the least is one that ranks began at different moments."""
        works = self._compute_stretch, self._stream_stretch
        times = self._usual_times(
            {(work, together): self._stretch(work, together or self._group.rank == 0)
             for work in works for together in (False, True)}, usual=statistics.median)
        ended = meeting if self._is_crowded else 0.0

        def alone_and_longer(work: Callable) -> tuple[float, float]:
            alone, together = (times[work, others].wall - ended for others in (False, True))
            return alone, max(1.0, together / alone) if alone > 0.0 else 1.0

        (_, computing), (alone, streaming) = map(alone_and_longer, works)
        moved = self._far_pieces * 2 * self._far.nbytes  # each piece reads and writes it
        return Crowding(computing, streaming, moved / alone if alone > 0.0 else math.inf)

    def _ranks_and_processors(self) -> tuple[int, int]:
        """Of the machine that has the fewest processors for a rank."""
        machine = int.from_bytes(hashlib.sha256(socket.gethostname().encode()).digest()[:7], "big")
        ranks = collections.Counter(self._meet(machine, len(os.sched_getaffinity(0))))
        (_, processors), number = min(ranks.items(), key=lambda item: item[0][1] / item[1])
        return number, processors

    def _stretch(self, work: Callable[[], None], works: bool) -> Callable[[], object]:
        """A stretch of work of this rank, or none. Ranks that share processors do not all get them
        at once: there it is long, and until all are through."""
        def run() -> None:
            if works:
                work()
            if self._is_crowded:
                self._meet()

        return run

    def _compute_stretch(self) -> None:
        self._compute(_MANY_PIECES if self._is_crowded else _PIECES_OF_STRETCH)

    def _stream_stretch(self) -> None:
        for _ in range(self._far_pieces):
            self._far.add_(1.0)

    @property
    def _far_pieces(self) -> int:
        return _MANY_FAR_PIECES if self._is_crowded else _FAR_PIECES

    def _work(self) -> None:
        """Before a collective, uncounted: it lets the threads of the backend sleep and takes the
        processors' caches, as in a step."""
        self._compute(_PIECES)

    def _compute(self, pieces: int) -> None:
        for _ in range(pieces):
            self._factors @ self._factors
            self._sum.add_(1.0)

    def _collective(self, name: str, whole_bytes: int, tensors: int,
                    talks: bool) -> Callable[[], object]:
        collective = _COLLECTIVES[name]
        among = collective.among(self._group)
        given = [self._tensor(whole_bytes) for _ in range(tensors)]

        def run() -> None:
            pending = collective.start(given, among)
            collective.wait(pending, given, among)

        def run_without_others() -> None:
            with IN_FLIGHT.unconnected():
                run()

        return run if talks else run_without_others

    def _pieces_and_meetings(self, meetings: int) -> None:
        """As much work however often ranks meet in it."""
        for _ in range(meetings):
            self._compute(_MEETINGS * _PIECES_BETWEEN // meetings)
            self._meet()

    def _cost_of(self, name: str, times: Mapping[_Key, _Times], late: float) -> CollectiveCost:
        """What its ops do without communication counts as theirs. ``late``: by how much ranks that
        compute come later than those that have just met."""
        added = [times[name, place, True].less(times[name, place, False])
                 for place in range(len(_POINTS))]
        sizes = [self._made_bytes(name, size) for size in (_FEW_BYTES, _MANY_BYTES)]
        return CollectiveCost(
            _line([one.wall + late for one in added], sizes),
            _line([_taken_from_ops(one, self._ranks_per_processor) for one in added], sizes))

    def _made_bytes(self, name: str, whole_bytes: int) -> int:
        with IN_FLIGHT.unconnected():
            collective = _COLLECTIVES[name]
            return collective.start([self._tensor(whole_bytes)],
                                    collective.among(self._group)).nbytes

    def _usual_times(self, trials: Mapping, before: Callable[[], object] = lambda: None,
                     usual: Callable[[Sequence[int]], float] | None = None) -> dict:
        """By the key of a trial, those of a usual run, on the rank that takes the longest. The
        trials take turns, so that other programs disturb all of them alike. ``before``: is not
        counted. ``usual``: of the times of all runs."""
        found: dict[Any, list[list[tuple[int, ...]]]] = {key: [] for key in trials}
        begun = time.perf_counter()
        while not self._is_over(found.values(), time.perf_counter() - begun):
            for key, run in trials.items():
                before()
                found[key].append(self._meet(*_nanoseconds(run)))
        return {key: self._of_slowest(runs, usual or self._usual) for key, runs in found.items()}

    def _is_over(self, found: Collection[Sequence], seconds: float) -> bool:
        """As the first rank sees it, whose clock counts."""
        runs = max(map(len, found))
        is_over = runs == _MOST_RUNS or seconds > _MOST_SECONDS and runs >= _FEWEST_RUNS or all(
            self._are_enough([[times[0] for times in of_ranks] for of_ranks in one])
            for one in found)
        return bool(self._meet(int(is_over))[0][0])

    def _of_slowest(self, runs: Sequence[Sequence[tuple[int, ...]]],
                    usual: Callable[[Sequence[int]], float]) -> _Times:
        """By run and rank, nanoseconds."""
        by_rank = [zip(*of_rank) for of_rank in zip(*runs)]
        return _Times(*(1e-9 * max(map(usual, of_ranks)) for of_ranks in zip(*by_rank)))

    def _meet(self, *numbers: int) -> list[tuple[int, ...]]:
        return self._group.meet("measure collectives", "", *numbers)

    def _tensor(self, whole_bytes: int) -> torch.Tensor:
        size = self._group.size
        return torch.zeros(whole_bytes // 4 // size * size, device=self._device)


def _pass_several(parameter: torch.nn.Parameter) -> None:
    for _ in range(_PARAMETERS):
        passed_to_graph(parameter)


def _nanoseconds(run: Callable[[], object]) -> tuple[int, int, int]:
    wall, own, process = time.perf_counter_ns(), time.thread_time_ns(), time.process_time_ns()
    run()
    own = time.thread_time_ns() - own
    others = time.process_time_ns() - process - own
    return time.perf_counter_ns() - wall, own, max(0, others)


def _taken_from_ops(times: _Times, ranks_per_processor: float) -> float:
    """Of the time that a collective takes of processors, what ops beside it lack: that of the
    thread that runs them, and of the backend's threads as far as no processor is free for them.
    Where ranks share one, all of it takes as many times as long."""
    without_processor = min(1.0, max(0.0, 2 - 1 / ranks_per_processor))
    return max(1.0, ranks_per_processor) * (times.own + without_processor * times.others)


def _coalesced_bytes(times: Mapping[_Key, _Times]) -> int:
    """Of a tensor that takes as long to copy into and out of a message of several as a message of
    its own does. Of the processors' time, which other programs disturb the least."""
    few, several, many = range(len(_POINTS))

    def added(name: str, place: int) -> float:
        taken, least = times[name, place, True], times[name, few, True]
        return taken.own + taken.others - least.own - least.others

    def most(apart: str, together: str) -> float:
        message = (added(apart, several) - added(together, several)) / (_SEVERAL - 1)
        byte = (added(together, many) - added(apart, many)) / (_MANY_BYTES - _FEW_BYTES)
        return max(0.0, message) / max(_LEAST_PER_BYTE, byte)

    return min((int(most(apart, together)) for apart, together in _COALESCED.items()
                if (apart, few, True) in times), default=0)


def _undisturbed(times: Sequence[int]) -> list[int]:
    """Other programs only add to a time, and others that are late for a rank's messages."""
    return [one for one in times if one <= _LONGEST * min(times)]


def _usual_of(times: Sequence[int]) -> float:
    return statistics.median(_undisturbed(times))


def _some_are_undisturbed(found: Sequence[Sequence[int]]) -> bool:
    """Whether there are enough runs; times by run and rank."""
    return len(found) >= _FEWEST_RUNS and all(
        len(_undisturbed(times)) >= _UNDISTURBED for times in zip(*found))


def _are_many(found: Sequence[Sequence[int]]) -> bool:
    """The same of ranks that take turns on processors."""
    return len(found) >= _CROWDED_RUNS


def _line(seconds: Sequence[float], sizes: Sequence[int]) -> LineOfBytes:
    """Through what was measured of few bytes, of several tensors of few bytes, and of many."""
    few, several, many = seconds
    less, more = sizes
    per_byte = max(0.0, (many - few) / max(1, more - less))
    per_tensor = max(0.0, (several - few) / (_SEVERAL - 1) - per_byte * less)
    return LineOfBytes(max(0.0, few - per_byte * less), per_byte, per_tensor)
