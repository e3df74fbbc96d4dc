"""What is known of a combination, for a step of one size or for the largest one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ... import InfeasibleError, InputError
from ..common.inputs import device_of
from ..max_batch import max_batch
from ..wrap import wrap
from .combination import Combination
from .rows_of_batch import number_of_rows
from .trial import Found, Measured, found_of, measured, not_fitting, planned


class StepSearch:
    """Of a module and its inputs."""

    def __init__(self, model: torch.nn.Module, inputs: object, settings: Mapping[str, Any]):
        if inputs is None:
            raise InputError("tune wants example_inputs: what the model is called with")
        self._model, self._inputs, self._settings = model, inputs, settings
        self.rows = number_of_rows(inputs)

    @property
    def device(self) -> torch.device:
        return device_of(self._model, self._inputs)

    def planned(self, budget: int, combination: Combination) -> Found:
        return planned(self._model, self._inputs, budget, combination, self._settings)

    def measured(self, budget: int, found: Found, updates: bool) -> Measured:
        return measured(self._model, self._inputs, budget, found.combination, self._settings,
                        updates)


class SizeSearch:
    """Of a function that gives a module and its inputs for a size."""

    #: A larger size is the goal, not a batch in parts.
    rows = None

    def __init__(self, make_step: Callable, inputs: object, settings: Mapping[str, Any]):
        if inputs is not None:
            raise InputError("a function of a size gives the inputs: leave example_inputs out")
        self._make_step, self._settings = make_step, settings

    @property
    def device(self) -> torch.device:
        model, inputs = self._make_step(1)
        return device_of(model, inputs)

    def planned(self, budget: int, combination: Combination) -> Found:
        settings = {**self._settings, **combination.settings}
        try:
            largest = max_batch(self._make_step, budget, **settings)
        except InfeasibleError as error:
            return not_fitting(combination, error)
        model, inputs = self._make_step(largest.size)
        return found_of(wrap(model, inputs, budget, **settings), combination, largest.size)

    def measured(self, budget: int, found: Found, updates: bool) -> Measured:
        model, inputs = self._make_step(found.size or 1)
        return measured(model, inputs, budget, found.combination, self._settings, updates)
