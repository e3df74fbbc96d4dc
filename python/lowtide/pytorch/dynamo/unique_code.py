"""Gives a function its own code object, so that Dynamo caches it separately."""

from __future__ import annotations

import itertools
from collections.abc import Callable

_numbers = itertools.count(1)


def with_unique_code(function: Callable) -> Callable:
    """The function with a code object and a name of its own: by the one Dynamo counts and keeps
    what it traces, by the other it remembers which sizes changed."""
    code = function.__code__
    function.__code__ = code.replace(co_name=f"{code.co_name}_{next(_numbers)}")
    return function
