"""Warns when a function is traced or planned again and again, and names what changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping
from types import CodeType

from ..common.notices import warn

#: Other modes and sizes are traced anew too; more traces than these have another cause.
_MANY_TRACES = 6

#: Dynamo sees the arguments of a call as those of the function that ``wrap`` has traced.
_BY_NAME = re.compile(r"(?<![\w.])named(?:\[[\"'](\w+)[\"']\]|\.(\w+))")
_BY_PLACE = re.compile(r"(?<![\w.])arguments(?:\[(\d+)\]|\.(\d+))")
_NAMES = re.compile(r"KeyError on named|(?<![\w.])named\b(?!\[|\.)")


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
            warn(f"{self._name} was traced {_MANY_TRACES} times, and each trace is planned anew. "
                 f"{what_changed(self._guard)}")


class ManyNumbers:
    """Warns once when a graph of the model ``name`` is planned for the sixth time for calls of the
    same sizes, with other numbers."""

    def __init__(self, name: str):
        self._name, self._is_said = name, False
        self._plans: Counter[Hashable] = Counter()

    def see_plan(self, sizes: Hashable, numbers: Mapping[str, float]) -> None:
        """``numbers``: those of the user's code that the plan is for, by what they are called."""
        self._plans[sizes] += bool(numbers)
        if self._plans[sizes] == _MANY_TRACES and not self._is_said:
            self._is_said = True
            values = ", ".join(f"{as_users_say(name)} = {value}"
                               for name, value in numbers.items())
            warn(f"{self._name} was planned {_MANY_TRACES} times for calls that differ in numbers "
                 f"alone, now {values}. Each number is planned anew: give one that changes in each "
                 f"step as a tensor, such as torch.tensor({next(iter(numbers.values()))})")


def as_users_say(text: str) -> str:
    """A name or a condition of Dynamo's, with arguments named as in the call of the model."""
    text = _BY_NAME.sub(lambda found: found[1] or found[2], text)
    return _BY_PLACE.sub(lambda found: f"argument {int(found[1] or found[2]) + 1}", text)


def what_changed(guard: str) -> str:
    """What a guard of Dynamo's that is not met says to the caller of a model, and what to do."""
    condition, *code = re.split(r"\s+#\s", re.sub(r"^\d+/\d+: ", "", guard))
    condition = re.sub(r"\bL\['(\w+)'\]", r"\1", condition)
    if _NAMES.search(condition):
        return ("Which keyword arguments are given differs from call to call: give the same ones "
                "in each call, such as with None for those that are not there")
    changed = "A value that the earlier ones were made for has changed"
    said = as_users_say(condition)
    where = f" (in: {code[0].strip()})" if code else ""
    if said != condition:
        return (f"{changed}: {said}{where}. Give numbers that change in each step as tensors; each "
                f"other value of an argument has a plan of its own")
    return (f"{changed}: {said}{where}. Give what changes in each step as an argument of forward, "
            f"as a tensor")
