"""A training whose ranks end together, and each says which rank failed and why."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ...arguments import checked_timeout
from .communicator import Communicator
from .errors import RankError, error_text
from .process_group import backends_of, calls_of
from .process_identity import this_process
from .rank_board import Failure, RankBoard
from .rank_monitor import RankMonitor, failure_text
from .termination import Terminated, Termination

#: Beats that a rank that is told to end waits for the reason.
_BEATS_AT_END = 3


class Watchdog:
    """A context around the training of all ranks of ``comm``:

        with lowtide.Watchdog(comm, model=model, optimizer=optimizer, budget=budget):
            ...

    At its begin the ranks compare ``agreed`` as by ``comm.agree``: InputError names a rank that
    differs, and in what. Then a rank that raises, is killed, stands still or leaves while others
    wait for it ends the training on all ranks: the others raise RankError, whose text is the same
    on each and names the rank and the reason, where PyTorch would say that a connection was
    closed, or wait. The rank itself keeps its own exception, with the text as a note.

    ``timeout``: seconds that a rank may be without a sign of life, or behind the others by a
    collective; more than the longest time between two collectives of a rank. It is that of all
    process groups meanwhile. A rank that ends is noticed within a second if the rank before it is
    on the same machine, else within ``timeout``; one that stands still within ``timeout``. At the
    latest ``timeout`` after that, a rank that is still computing ends as ``os._exit(1)`` does, with
    the same text on its standard error; a process that was stopped by a signal is killed by the
    rank before it, on its machine.
    """

    def __init__(self, comm: Communicator, *, timeout: float = 300.0, **agreed: object):
        self._comm, self._timeout, self._agreed = comm, checked_timeout(timeout), agreed
        self._undo = contextlib.ExitStack()
        self._board: RankBoard | None = None
        self._monitor: RankMonitor | None = None
        self._termination = Termination()

    def __enter__(self) -> Watchdog:
        with contextlib.ExitStack() as undo:
            undo.enter_context(_timeouts(self._timeout))
            self._begin()
            self._undo = undo.pop_all()
        if self._monitor is not None:
            self._termination.begin()
        return self

    def __exit__(self, kind, error: BaseException | None, trace) -> None:
        self._termination.hold()
        failure = None
        with self._undo:
            if self._monitor is not None:
                failure = None if error is None else self._failure_behind(error)
                self._leave(failure)
        if failure is None:
            self._termination.end()
            return
        text = failure_text(failure, self._comm.size)
        self._termination.end(text)
        if failure.rank == self._comm.rank or not _comes_from_outside(error):
            error.add_note(text)
            return
        raise RankError(text, failure.rank) from error

    def _leave(self, failure: Failure | None) -> None:
        self._monitor.end()
        if failure is None:
            with contextlib.suppress(RuntimeError):  # the store may have ended before
                self._monitor.beat(has_left=True)

    def _begin(self) -> None:
        comm = self._comm
        if comm.size == 1:
            return
        ranks = dist.get_process_group_ranks(comm.group)
        store = comm.group.get_group_store()
        number = store.add(f"lowtide/watchdogs/{comm.rank}", 1)  # the same on each rank
        self._board = RankBoard(store, f"lowtide/watchdog/{number}", self._timeout)
        self._monitor = RankMonitor(self._board, comm.rank, comm.size, self._timeout,
                                    lambda: calls_of(ranks))
        self._board.announce(comm.rank, this_process())
        self._monitor.beat()
        try:
            comm.agree(**self._agreed)
            comm.barrier()
        except RankError as error:
            missing = [rank for rank in range(comm.size) if self._board.announced(rank) is None]
            if not missing:
                raise
            raise RankError(f"rank {missing[0]} of {comm.size} failed: it has not begun the "
                            f"watchdog for {self._timeout:g} s, as the others have",
                            missing[0]) from error
        self._monitor.start()

    def _failure_behind(self, error: BaseException) -> Failure:
        """The failure that ended this training: another rank's, where the error follows from it."""
        is_outside, is_told = _comes_from_outside(error), isinstance(error, Terminated)
        if is_outside:
            self._monitor.expect_failure()
            self._wait_for_failure(0.0 if is_told else self._timeout)
        if self._monitor.failure is not None and is_outside:
            return self._monitor.failure
        own = Failure(self._comm.rank, _reason(error))
        if is_outside and not is_told:
            own = Failure(None, f"a collective failed on rank {self._comm.rank}, and all ranks "
                                f"give signs of life: {error_text(error)}")
        try:
            return self._board.report(own)
        except RuntimeError:  # the store is gone as well
            return own

    def _wait_for_failure(self, seconds: float) -> None:
        """And some beats longer; no longer than these once SIGTERM has come."""
        last = _BEATS_AT_END * self._monitor.interval
        end = time.monotonic() + seconds + last
        while time.monotonic() < end and not self._monitor.failed.wait(self._monitor.interval):
            if self._termination.has_come:
                end = min(end, time.monotonic() + last)


def _comes_from_outside(error: BaseException) -> bool:
    """Whether an error says only that other ranks do not answer, or that this one is to end."""
    if isinstance(error, (RankError, dist.DistError, Terminated)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("gloo" in text or "nccl" in text)


def _reason(error: BaseException) -> str:
    if isinstance(error, Terminated):
        return "it was told to end by SIGTERM"
    text = error_text(error)
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "allocate memory" in text:
        return f"it ran out of memory ({text}): give all ranks a smaller budget or batch"
    return text


@contextlib.contextmanager
def _timeouts(seconds: float) -> Iterator[None]:
    """Collectives of all process groups fail after so many seconds, and not after half an hour."""
    backends = [backend for group in distributed_c10d._world.pg_map
                for backend in backends_of(group)]
    before = [backend.options._timeout for backend in backends]
    for backend in backends:
        backend._set_default_timeout(datetime.timedelta(seconds=seconds))
    try:
        yield
    finally:
        for backend, limit in zip(backends, before):
            backend._set_default_timeout(limit)
