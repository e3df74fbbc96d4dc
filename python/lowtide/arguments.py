"""Checks the arguments that functions for planning share. Each function gives the argument as the
compiled part takes it, or raises InputError."""

import math
import numbers
from collections.abc import Mapping

from ._core import Graph, InputError, Strategy


def checked_graph(graph) -> Graph:
    if not isinstance(graph, Graph):
        hint = " (Graph.load reads a file)" if isinstance(graph, str) else ""
        raise InputError(f"graph must be a lowtide.Graph{hint}, not {graph!r}")
    return graph


def budget_text(budget) -> str:
    """A budget as the compiled part reads it: numbers, of NumPy too, without an exponent."""
    return str(int(budget)) if _is_number(budget) and 1 <= budget < math.inf else str(budget)


def checked_strategy(strategy) -> str | None:
    """The name of a strategy; None is the default one."""
    if isinstance(strategy, Strategy):
        return strategy.name
    if strategy is not None and not isinstance(strategy, str):
        raise InputError(f"strategy must be a name of lowtide.strategies(), or None, not "
                         f"{strategy!r}")
    return strategy


def checked_options(options) -> dict[str, float | str]:
    if not isinstance(options, Mapping):
        raise InputError(f"options must be a dict from names to values, not {options!r}")
    for name, value in options.items():
        if not isinstance(name, str):
            raise InputError(f"the name of an option must be a text, not {name!r}")
        if not isinstance(value, (numbers.Real, str)):
            raise InputError(f"the option {name!r} must be a number, a switch or a name, not "
                             f"{value!r}")
    return {name: _plain(value) for name, value in options.items()}


def _plain(value):
    """A number of another package, such as NumPy's, as Python's."""
    if isinstance(value, (bool, str)):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def checked_seconds(time_limit, *, zero_is_none: bool) -> float:
    """Seconds of planning. ``zero_is_none``: whether 0 stands for no limit, or is refused."""
    if zero_is_none and _is_number(time_limit) and time_limit == 0:
        return 0.0
    least = "0 for no limit, or more" if zero_is_none else "more than 0"
    return checked_duration("time_limit", time_limit, f"seconds of planning, {least}")


def checked_duration(name: str, value, what: str = "seconds, more than 0") -> float:
    if not _is_number(value) or not 0 < value < math.inf:
        raise InputError(f"{name} must be {what}, not {value!r}")
    return float(value)


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def checked_timeout(timeout) -> float:
    """Seconds that ranks wait for each other."""
    is_number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout < math.inf:
        raise InputError(f"timeout must be seconds that ranks wait for each other, more than 0, "
                         f"not {timeout!r}")
    return float(timeout)


def checked_switch(name: str, value) -> bool | None:
    """None is what is best."""
    if not any(value is choice for choice in (None, True, False)):
        raise InputError(f"{name} must be True, False or None, not {value!r}")
    return value


def checked_count(name: str, value, least: int, most: int | None = None) -> int:
    is_count = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_count or value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}"
        raise InputError(f"{name} must be a whole number, at least {least}{upper}, not {value!r}")
    return int(value)
