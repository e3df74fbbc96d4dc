"""Warns when a function is traced again and again, and names the guard that failed."""

from __future__ import annotations

from collections import Counter
from types import CodeType

from ..common.notices import warn

#: Other modes and sizes are traced anew too; more traces than these have another cause.
_MANY_TRACES = 6


class RetraceWarning:
    """Warns once when a function of the model ``name`` is traced for the sixth time."""

    def __init__(self, name: str):
        self._name, self._guard = name, ""
        self._traces: Counter[CodeType] = Counter()

    def see_failed_guard(self, failure) -> None:
        """Dynamo's report of a guard that a call did not meet."""
        self._guard = failure.reason.strip().splitlines()[0] if failure.reason.strip() else ""

    def see_trace(self, code: CodeType) -> None:
        self._traces[code] += 1
        if self._traces[code] == _MANY_TRACES:
            warn(f"{self._name} was traced {_MANY_TRACES} times, and each trace is planned anew. A "
                 f"value that the earlier ones were made for has changed: {self._guard}. Give what "
                 f"changes in each step as an argument of forward, as a number or a tensor")
