"""The error of a training whose ranks cannot go on together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ... import Error


class RankError(Error):
    """A rank failed, or a collective did. ``rank``: of the rank that is the cause, None where
    that is not known."""

    def __init__(self, message: str, rank: int | None = None):
        super().__init__(message)
        self.rank = rank


def error_text(error: BaseException) -> str:
    """Class and first line of the message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextlib.contextmanager
def collective_named(call: str, rank: int, size: int) -> Iterator[None]:
    """Errors of a backend within it become RankErrors that name the rank and the call."""
    try:
        yield
    except RuntimeError as error:  # all errors of c10d are of this class
        raise RankError(f"rank {rank} of {size}: {call} failed: {error_text(error)} (a rank "
                        f"that ended or stands still shows as this in the others; "
                        f"lowtide.Watchdog(comm) around the training names it)") from error
