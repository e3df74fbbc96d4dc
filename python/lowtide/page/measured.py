"""What a step took of memory while it ran."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Sequence

from .. import InputError
from .memory import shown_actions


@dataclasses.dataclass(frozen=True)
class MeasuredMemory:
    """Bytes in use, by seconds since the step began. ``how``: by what they were measured."""

    seconds: Sequence[float]
    bytes: Sequence[int]
    how: str

    def above(self, before: int, remark: str = "") -> MeasuredMemory:
        """With what was there before, and a remark about how."""
        return MeasuredMemory(self.seconds, [before + size for size in self.bytes],
                              self.how + remark)

    def shown(self) -> MeasuredMemory:
        """As many moments as a picture can show, the highest ones among them."""
        at = shown_actions(self.bytes, self.seconds)
        return MeasuredMemory([self.seconds[i] for i in at], [self.bytes[i] for i in at], self.how)


def of_trace(path: str | os.PathLike[str], graph_name: str) -> MeasuredMemory:
    """Of a trace of ``lowtide train --trace``. Raises InputError where the file is none, or one of
    another graph."""
    file = pathlib.Path(path)
    try:
        events = json.loads(file.read_text())["traceEvents"]
        name = next(event["args"]["name"] for event in events if event["name"] == "process_name")
        counted = [(event["ts"], event["args"]["bytes"]) for event in events
                   if event["name"] == "bytes in use"]
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, StopIteration):
        raise InputError(f"{file} is no trace of lowtide: write one by lowtide train --trace "
                         f"FILE") from None
    if name != graph_name:
        raise InputError(f"{file} is a trace of {name}, and the plan is one of {graph_name}: give "
                         f"the files that one run of lowtide train wrote")
    if not counted:
        raise InputError(f"{file} says nothing of memory: write it by lowtide train --trace FILE")
    times, sizes = zip(*counted)
    return MeasuredMemory([1e-6 * time for time in times], sizes,
                    f"the times and bytes that ops took, in {file.name}")
