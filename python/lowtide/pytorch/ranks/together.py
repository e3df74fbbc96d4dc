"""What one rank finds out or fails at, told to all, so that all go on or all raise."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ... import Error, InputError
from .communicator import Communicator
from .errors import RankError, error_text


def told_by_first(comm: Communicator, find: Callable[[], Any]) -> Any:
    """What ``find`` returns on rank 0, as JSON has it, on all ranks; InputError on all of them
    where it raises one of Lowtide's errors or of the system's."""
    told = {}
    if comm.rank == 0:
        try:
            told = {"found": find()}
        except (Error, OSError) as error:
            told = {"error": str(error)}
    told = json.loads(comm.allgather_text(json.dumps(told))[0])
    if "error" in told:
        raise InputError(told["error"])
    return told["found"]


def raise_together(comm: Communicator, error: BaseException | None, doing: str) -> None:
    """Raises on all ranks where any of them has an error: its own, or a RankError that names the
    first one that has one."""
    told = comm.allgather_text("" if error is None else error_text(error))
    failed = [rank for rank, text in enumerate(told) if text]
    if not failed:
        return
    text = f"rank {failed[0]} of {comm.size} failed {doing}: {told[failed[0]]}"
    if isinstance(error, Error):
        raise error
    raise RankError(text, failed[0]) from error
