"""What a person asks of a planned model: the budget, and how to look for plans."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping

import torch

from .. import InputError

#: What runs a planned model: Lowtide's executor, or the code that Inductor makes.
MODES = ("executor", "inductor")

#: The budgets that mean none: every value is kept.
UNLIMITED = (None, "inf", float("inf"))

#: Of the default strategy's local search, in thousands: for a few thousand ops it ends before the
#: time limit does, so that a plan is the same on every start and every machine with these costs.
_MOVES = 1000


@dataclasses.dataclass(frozen=True)
class Settings:
    """``budget``: bytes, ``"6GiB"``, ``"60%"`` of what the same step takes when all values are
    kept, or None for no limit. ``optimizer``: an optimizer, its class, or one of the names of
    ``optimizer_state.STATES``; None counts what Adam would hold. ``time_limit``: seconds of
    planning for each graph at most; most end before. ``report``: gets one line for each stage of
    the work; None is silent. ``mode``: one of ``MODES``.
    """

    budget: int | str | None = None
    optimizer: torch.optim.Optimizer | type | str | None = None
    strategy: str | None = None
    options: Mapping[str, float] = dataclasses.field(default_factory=dict)
    time_limit: float = 30.0
    cache: bool = True
    report: Callable[[str], None] | None = None
    mode: str = "executor"

    def __post_init__(self):
        if self.mode not in MODES:
            raise InputError(f"unknown mode {self.mode!r}: choose from {', '.join(MODES)}")

    @property
    def planning_options(self) -> dict[str, float]:
        """Those of the strategy, with the work of the default one."""
        return {**({} if self.strategy else {"moves": _MOVES}), **self.options}

    def say(self, message: str) -> None:
        if self.report is not None:
            self.report(message)


def to_stderr(message: str) -> None:
    """A report for programs: each stage on a line of its own."""
    print(f"lowtide: {message}", file=sys.stderr, flush=True)


def settings_from(options: Mapping | None) -> Settings:
    """Settings from the options of ``torch.compile``. InputError names an unknown one."""
    known = {field.name for field in dataclasses.fields(Settings)}
    given = dict(options or {})
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"the lowtide backend has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return Settings(**given)
