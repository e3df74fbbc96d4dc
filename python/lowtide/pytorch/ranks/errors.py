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


@contextlib.contextmanager
def collective_named(call: str, rank: int, size: int) -> Iterator[None]:
    """Errors of a backend within it become RankErrors that name the rank and the call."""
    try:
        yield
    except RuntimeError as error:  # all errors of c10d are of this class
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RankError(f"rank {rank} of {size}: {call} failed: {first} (a rank that ended or "
                        f"stands still shows as this in the others; lowtide.Watchdog(comm) around "
                        f"the training names it)") from error
