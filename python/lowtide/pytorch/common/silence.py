"""What a model prints while its code runs for a plan is not shown."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TextIO


class _Output:
    """Takes the place of the standard output: silent for some threads, as before for the others.
    ``users``: how many want it in place."""

    def __init__(self, output: TextIO):
        self.output, self.silent, self.users = output, threading.local(), 0

    def write(self, text: str) -> int:
        return len(text) if self.is_silent else self.output.write(text)

    @property
    def is_silent(self) -> bool:
        return getattr(self.silent, "depth", 0) > 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.output, name)


_LOCK = threading.Lock()


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """While it lasts, what this thread prints is lost."""
    ours = _enter()
    ours.silent.depth = getattr(ours.silent, "depth", 0) + 1
    try:
        yield
    finally:
        ours.silent.depth -= 1
        _leave(ours)


def aloud(report: Callable[[str], None]) -> Callable[[str], None]:
    """The same report, heard while a model is silenced: it may print."""
    def told(line: str) -> None:
        output = sys.stdout
        if not isinstance(output, _Output) or not output.is_silent:
            report(line)
            return
        depth, output.silent.depth = output.silent.depth, 0
        try:
            report(line)
        finally:
            output.silent.depth = depth
    return told


def _enter() -> _Output:
    with _LOCK:
        if not isinstance(sys.stdout, _Output):
            sys.stdout = _Output(sys.stdout)  # type: ignore[assignment]
        ours: _Output = sys.stdout  # type: ignore[assignment]
        ours.users += 1
        return ours


def _leave(ours: _Output) -> None:
    """The last one puts the output back, unless somebody has exchanged it meanwhile."""
    with _LOCK:
        ours.users -= 1
        if ours.users == 0 and sys.stdout is ours:
            sys.stdout = ours.output
