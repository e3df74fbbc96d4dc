"""The settings of a planned model: its budget, and how plans are searched for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch

from ... import InputError, _core, strategies
from ..common.progress import Progress
from .budget import Budget
from .optimizer_state import optimizer_state_bytes

#: What runs a planned model: Lowtide's executor, or the code that Inductor makes.
MODES = ("executor", "inductor")

#: Seconds of planning for each graph at most, where no one asks for others; most end before.
TIME_LIMIT = 30.0

#: Of the default strategy's local search, in thousands: for a few thousand ops it ends before the
#: time limit does, so that a plan is the same on every start and every machine with these costs.
MOVES = 1000


@dataclasses.dataclass(frozen=True)
class Settings:
    """``budget``: where it is a share, of what the same step takes when all values are kept.
    ``optimizer``: an optimizer, its class, or one of the names of ``optimizer_state.STATES``; None
    counts what Adam would hold. ``time_limit``: seconds of planning for each graph at most; most
    end before. ``cache``: whether plans are kept for later runs; ``"refresh"``: they are, and none
    of an earlier run is used; None: they are where the mode keeps any, which Inductor's does not.
    ``report``: gets one line for each stage of the work; None is silent. ``mode``: one of
    ``MODES``. ``when_infeasible``: whether a step that no plan fits raises InfeasibleError, or runs
    by the plan that needs the least, with a warning; None raises until a step was run to its end,
    and warns from then on. ``batches_ahead``: how many batches the data loader holds beside the one
    in use. ``verbose``: whether measuring and planning that take long are told of on standard
    error, where there is no ``report``.
    """

    budget: Budget = Budget("None")
    optimizer: torch.optim.Optimizer | type | str | None = None
    strategy: str | None = None
    options: Mapping[str, float | str] = dataclasses.field(default_factory=dict)
    time_limit: float = TIME_LIMIT
    cache: bool | str | None = None
    report: Callable[[str], None] | None = None
    mode: str = "executor"
    when_infeasible: str | None = None
    batches_ahead: int = 0
    verbose: bool = True

    def __post_init__(self):
        _require_choice("mode", self.mode, MODES)
        _require_choice("when_infeasible", self.when_infeasible, (None, "error", "warn"))
        _require_choice("verbose", self.verbose, (True, False))
        _require_choice("cache", self.cache, (None, True, False, "refresh"))
        if self.mode == "inductor" and self.cache:
            raise InputError(f"mode=\"inductor\" keeps no plans for later runs: leave "
                             f"cache={self.cache!r} out")
        _require_planning(self.strategy, self.options)
        _require_seconds(self.time_limit)
        _require_count("batches_ahead", self.batches_ahead)
        if self.report is not None and not callable(self.report):
            raise InputError(f"report must be a function that gets a line of text, or None, not "
                             f"{self.report!r}")
        optimizer_state_bytes(self.optimizer, ())

    @property
    def keeps_plans(self) -> bool:
        """Whether plans are kept for later runs."""
        return self.cache is None or bool(self.cache)

    @property
    def planning_options(self) -> dict[str, float | str]:
        """Those of the strategy, with the work of the default one."""
        return {**({} if self.strategy else {"moves": MOVES}), **self.options}

    def progress(self, what: str) -> Progress:
        """Says what is done if that takes long. One who gets reports is told by them."""
        return Progress(what, quiet=not self.verbose or self.report is not None)

    def say(self, message: str) -> None:
        if self.report is not None:
            self.report(message)


def _require_choice(name: str, value, choices: Sequence) -> None:
    if not any(value is choice or (isinstance(choice, str) and value == choice)
               for choice in choices):
        raise InputError(f"unknown {name} {value!r}: choose from {', '.join(map(str, choices))}")


def _require_planning(strategy, options) -> None:
    known = [found.name for found in strategies()]
    if strategy is not None and strategy not in known:
        raise InputError(f"unknown strategy {strategy!r}: choose from {', '.join(known)}")
    if not isinstance(options, Mapping):
        raise InputError(f"options must be a dict from names to values, not {options!r}")
    for name, value in options.items():
        if not isinstance(value, (int, float, str)):
            raise InputError(f"the option {name!r} must be a number, a switch or a name, not "
                             f"{value!r}")
    _core.require_options(strategy or "", options)


def _require_seconds(time_limit) -> None:
    if (isinstance(time_limit, bool) or not isinstance(time_limit, (int, float))
            or not time_limit > 0):
        raise InputError(f"time_limit must be seconds of planning above 0, not {time_limit!r}")


def _require_count(name: str, value) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{name} must be a whole number, at least 0, not {value!r}")


def settings_from(options: Mapping | None) -> Settings:
    """Settings from the options of ``torch.compile``. InputError names an unknown one."""
    known = {field.name for field in dataclasses.fields(Settings)}
    given = dict(options or {})
    unknown = sorted(set(given) - known)
    if unknown:
        raise InputError(
            f"the lowtide backend has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return Settings(**given | {"budget": Budget.parse(given.get("budget"))})
