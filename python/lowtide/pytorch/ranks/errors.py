"""The error of a training whose ranks cannot go on together."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from ... import Error

#: Of an error of a planned step, one of whose ops raised a RankError: its message follows.
_IN_OP = re.compile(r'op ".*?" \(.*?\) failed: RankError: (.*)', re.DOTALL)


class RankError(Error):
    """A rank failed, or a collective did. ``rank``: of the rank that is the cause, None where
    that is not known."""

    __module__ = "lowtide"  # where users find it

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
                        f"that ended or stands still shows as this in the others: what it printed "
                        f"last may say why, and lowtide.Watchdog(comm) around the training names "
                        f"it. If it only takes long, give the process group a longer timeout)"
                        ) from error


@contextlib.contextmanager
def rank_errors_of_ops() -> Iterator[None]:
    """Around a planned pass: where an op of it fails by a RankError, that is raised."""
    try:
        yield
    except Error as error:
        found = _IN_OP.match(str(error))
        if found is None:
            raise
        raise RankError(found.group(1)) from error
