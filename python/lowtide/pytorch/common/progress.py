"""Progress lines on standard error, for work that takes long."""

from __future__ import annotations

import sys
import threading
import time

#: Seconds that work may take without a word.
SILENT_SECONDS = 2.0


class Progress:
    """A line about work that takes long: what is done once that has taken a while, and how long it
    took and what its ``outcome`` was when it ends. ``quiet``: without the line."""

    def __init__(self, what: str, quiet: bool = False):
        self.outcome = ""
        self._what, self._quiet = what, quiet
        self._lock = threading.Lock()
        self._is_done = self._is_begun = False

    def __enter__(self) -> Progress:
        self._began = time.perf_counter()
        self._timer = threading.Timer(SILENT_SECONDS, self._begin)
        self._timer.daemon = True
        if not self._quiet:
            self._timer.start()
        return self

    def __exit__(self, kind, *_) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_done = True
        if self._is_begun:
            outcome = self.outcome or ("stopped" if kind else "")
            seconds = f"{time.perf_counter() - self._began:.1f} s"
            _write(f" {seconds}, {outcome}\n" if outcome else f" {seconds}\n")

    def _begin(self) -> None:
        with self._lock:
            if not self._is_done:
                self._is_begun = True
                _write(f"lowtide: {self._what} ...")


def say(message: str) -> None:
    """A line for programs that report each stage."""
    _write(f"lowtide: {message}\n")


def _write(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)
