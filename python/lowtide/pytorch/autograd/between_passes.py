"""What is done to a session only while none of its passes runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


class BetweenPasses:
    """Of passes in any number of threads. Of several things that wait, the last is done."""

    def __init__(self):
        self._lock = threading.RLock()
        self._under_way = 0
        self._waiting: Callable[[], None] | None = None

    def do(self, at_once: Callable[[], None], later: Callable[[], None]) -> None:
        """``at_once``, if no pass runs; otherwise ``later``, before the next pass that begins when
        no other one runs. That ``at_once`` raises leaves what waits."""
        with self._lock:
            if self._under_way:
                self._waiting = later
            else:
                at_once()
                self._waiting = None

    @contextlib.contextmanager
    def one_pass(self) -> Iterator[None]:
        """While a pass runs."""
        with self._lock:
            if self._waiting is not None and not self._under_way:
                waiting, self._waiting = self._waiting, None
                waiting()
            self._under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
