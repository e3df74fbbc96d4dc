"""The thread that beats for its rank, watches another one, and hears of failures."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from .peer_history import PeerHistory, Suspicion
from .process_identity import STOPPED, processes_killed_for_memory
from .rank_board import Beat, Failure, RankBoard

#: Beats in a timeout, but no more than one in a second.
_BEATS = 10
_LONGEST_INTERVAL = 1.0
#: Beats that a rank may miss once a connection to some rank is known to be lost.
_MISSED_BEATS = 10


class RankMonitor(threading.Thread):
    """Each rank watches the next one of a circle, so that the store's work grows with the number of
    ranks and not with its square. Only for the word "behind" all ranks are looked at: of ranks
    that wait for each other, the one with the fewest collectives is the cause.

    ``failed`` is set when ``failure`` is known. A rank that has not ended its training ``timeout``
    seconds later (two beats if it is the cause itself) ends here, with the message.
    """

    def __init__(self, board: RankBoard, rank: int, size: int, timeout: float,
                 calls: Callable[[], int]):
        super().__init__(name="lowtide-rank-monitor", daemon=True)
        self.interval = min(_LONGEST_INTERVAL, timeout / _BEATS)
        self.failed = threading.Event()
        self.failure: Failure | None = None
        self._board, self._rank, self._size, self._timeout = board, rank, size, timeout
        self._calls, self._count, self._silence = calls, 0, timeout
        self._main, self._ends = threading.get_ident(), threading.Event()
        self._killed_before = processes_killed_for_memory()

    def beat(self, has_left: bool = False) -> None:
        self._count += 1
        self._board.beat(self._rank, Beat(self._count, self._calls(), has_left))

    def expect_failure(self) -> None:
        """A connection was lost, so that some rank is gone: its silence says so soon."""
        self._silence = min(self._timeout, _MISSED_BEATS * self.interval)

    def end(self) -> None:
        self._ends.set()
        self.join(self._timeout)  # it may wait for the store

    def run(self) -> None:
        try:
            self._watch()
        except RuntimeError:  # of the store: nobody can be told any more
            self._hear(_failure_of_store())
        self._end_process_in_time()

    def _watch(self) -> None:
        peer = (self._rank + 1) % self._size
        identity = self._board.announced(peer)
        history = PeerHistory(self._board.beats([peer])[0], time.monotonic())
        while not self.failed.is_set() and not self._ends.wait(self.interval):
            self.beat()
            told = self._board.failure()
            if told is None:
                state, (newest,) = identity.state(), self._board.beats([peer])
                suspicion = history.suspicion(newest, self._calls(), state, time.monotonic(),
                                              silence=self._silence, waiting=self._timeout)
                if suspicion is not None:
                    told = self._board.report(self._judged(peer, suspicion))
            if told is not None:
                self._hear(told)
                identity.end_if_stopped()

    def _hear(self, failure: Failure) -> None:
        self.failure = failure
        self.failed.set()

    def _judged(self, peer: int, suspicion: Suspicion) -> Failure:
        identity = self._board.announced(peer)
        process = f"its process {identity.pid} on {identity.host}"
        if suspicion.kind == "gone":
            return Failure(peer, f"{process} has ended without a word: it was killed, or it "
                                 f"crashed{self._kills_for_memory()}")
        if suspicion.kind == "silent":
            how = ("is stopped by a signal" if identity.state() == STOPPED else
                   "hangs, or its machine cannot be reached")
            return Failure(peer, f"{process} gave no sign of life for {suspicion.seconds:.1f} s: "
                                 f"it {how}")
        beats = self._board.beats(range(self._size))
        rank = min(range(self._size), key=lambda rank: beats[rank].calls)
        most = max(beat.calls for beat in beats)
        if beats[rank].has_left:
            return Failure(rank, f"it has left the training after {beats[rank].calls} collectives, "
                                 f"and other ranks wait in number {most}")
        return Failure(rank, f"it has begun {beats[rank].calls} collectives and others {most}, "
                             f"which wait for it for {suspicion.seconds:.1f} s: it hangs, or "
                             f"computes for longer than the timeout of {self._timeout:g} s")

    def _kills_for_memory(self) -> str:
        now = processes_killed_for_memory()
        if now is None or self._killed_before is None or now == self._killed_before:
            return ""
        return (f" (the kernel of this machine killed {now - self._killed_before} processes for "
                f"want of memory meanwhile)")

    def _end_process_in_time(self) -> None:
        if self.failure is None:
            return
        is_own = self.failure.rank == self._rank
        if self._ends.wait(2 * self.interval if is_own else self._timeout):
            return
        frame = sys._current_frames().get(self._main)
        stands = "".join(traceback.format_stack(frame)) if frame is not None else ""
        sys.stderr.write(f"{failure_text(self.failure, self._size)}. Rank {self._rank} ends here; "
                         f"it stands at:\n{stands}")
        sys.stderr.flush()
        os._exit(1)


def _failure_of_store() -> Failure:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return Failure(None, "torchrun, which holds the store of the process group, has ended")
    return Failure(0, "its process, which holds the store of the process group, has ended")


def failure_text(failure: Failure, size: int) -> str:
    """The one message of all ranks."""
    named = "a rank" if failure.rank is None else f"rank {failure.rank}"
    return f"{named} of {size} failed: {failure.reason}"
