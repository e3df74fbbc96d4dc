"""What is done to a session only while none of its passes runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class BetweenPasses:
    """Of passes in any number of threads. Of several things that wait, the last is done.

    ``lock``: is held while something is done, and not while passes run.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self._under_way = 0
        self._waiting: Callable[[], None] | None = None

    def do(self, at_once: Callable[[], None], later: Callable[[], None],
           may: Callable[[], bool]) -> None:
        """``at_once``, if no pass runs and it ``may`` be done; otherwise ``later``, before the next
        pass that begins when no other one runs. That ``at_once`` raises leaves what waits."""
        with self.lock:
            if self._under_way or not may():
                self._waiting = later
            else:
                at_once()
                self._waiting = None

    def unless_one_runs(self, work: Callable[[], None]) -> None:
        """Does it at once, or not at all where a pass runs."""
        with self.lock:
            if not self._under_way:
                work()

    @contextlib.contextmanager
    def one_pass(self, before: Callable[[], None]) -> Iterator[None]:
        """While a pass runs. ``before``: is called after what waited, if no other pass runs."""
        with self.lock:
            if not self._under_way:
                waiting, self._waiting = self._waiting, None
                if waiting is not None:
                    waiting()
                before()
            self._under_way += 1
        try:
            yield
        finally:
            with self.lock:
                self._under_way -= 1
