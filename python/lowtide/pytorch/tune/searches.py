"""What is known of a combination, for a step of one size or for the largest one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch

from ... import InfeasibleError
from ..common.inputs import device_of
from ..largest_size import Asked
from ..max_batch import search_largest, step_of_size
from .combination import Combination
from .rows_of_batch import number_of_rows
from .trial import (
    Found,
    Measured,
    Planned,
    found_of,
    measured,
    not_fitting,
    planned,
    session_with_plans,
)


class TuningSearch(Protocol):
    """``rows``: of a batch that may be divided; None: it may not. ``device``: of the step.
    ``is_on_ranks``: whether several ranks train together."""

    rows: int | None
    is_on_ranks: bool

    @property
    def device(self) -> torch.device: ...

    def agreed(self, budget: int) -> int:
        """No more bytes than any rank has."""

    def planned(self, budget: int, combination: Combination) -> Found:
        """Raises InputError for what cannot be planned."""

    def measured(self, budget: int, found: Found, updates: bool) -> Measured:
        """By running it. Raises Error."""


class StepSearch:
    """Of a module and its inputs. Modules that were planned are kept for ``kept`` combinations, the
    fastest, so that they need not be traced again to run."""

    is_on_ranks = False

    def __init__(self, model: torch.nn.Module, inputs: object, settings: Mapping[str, Any],
                 kept: int):
        self._model, self._inputs, self._settings = model, inputs, settings
        self._kept_number = kept
        self._kept: dict[Combination, Planned] = {}
        self.rows = number_of_rows(inputs)

    @property
    def device(self) -> torch.device:
        return device_of(self._model, self._inputs)

    def agreed(self, budget: int) -> int:
        return budget

    def planned(self, budget: int, combination: Combination) -> Found:
        one = planned(self._model, self._inputs, budget, combination, self._settings)
        # Of modules that update, each wants the optimizer for itself.
        if one.module is not None and not combination.fused_update:
            self._keep(one)
        return one.found

    def measured(self, budget: int, found: Found, updates: bool) -> Measured:
        known = self._kept.pop(found.combination, None)
        return measured(self._model, self._inputs, budget, found.combination, self._settings,
                        updates, module=None if known is None else known.module)

    def _keep(self, one: Planned) -> None:
        self._kept[one.found.combination] = one
        if len(self._kept) > self._kept_number:
            slowest = max(self._kept.values(), key=lambda other: other.found.seconds or 0.0)
            del self._kept[slowest.found.combination]


class SizeSearch:
    """Of a function that gives a module and its inputs for a size."""

    #: A larger size is the goal, not a batch in parts.
    rows: int | None = None
    is_on_ranks = False

    def __init__(self, make_step: Callable, settings: Mapping[str, Any], asked: Asked):
        self._make_step, self._settings, self._asked = make_step, settings, asked

    @property
    def device(self) -> torch.device:
        return device_of(*step_of_size(self._make_step, 1, self._asked))

    def agreed(self, budget: int) -> int:
        return budget

    def planned(self, budget: int, combination: Combination) -> Found:
        fitting: list[Found] = []

        def note(size: int, module: torch.nn.Module) -> None:
            fitting.append(found_of(session_with_plans(module), combination, size))

        try:
            largest = search_largest(self._make_step, budget, note, self._asked, **self._settings,
                                     **combination.settings)
        except InfeasibleError as error:
            return not_fitting(combination, error)
        best = max(fitting, key=lambda found: found.size or 0)
        if not largest.is_stopped:
            return best
        return dataclasses.replace(best, reason=f"{best.reason}; stopped, larger ones may fit",
                                   is_stopped=True)

    def measured(self, budget: int, found: Found, updates: bool) -> Measured:
        model, inputs = self._make_step(found.size or 1)
        return measured(model, inputs, budget, found.combination, self._settings, updates)
