"""Functions that Dynamo treats as unlike."""

from __future__ import annotations

from collections.abc import Callable


def with_own_code(function: Callable) -> Callable:
    """The function with a code object of its own, by which Dynamo counts and keeps what it
    traces."""
    function.__code__ = function.__code__.replace()
    return function
