"""The largest size for a combination on all ranks of a mesh."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ... import InfeasibleError, format_bytes
from ..common.inputs import device_of
from ..largest_size import Asked, LargestSize, SizeTried
from ..max_batch import LARGEST, step_of_size
from .combination import Combination
from .mesh_search import MeshSearch, TuningRanks
from .trial import Found, Measured, not_fitting


class MeshSizeSearch:
    """Of a function that gives a module and this rank's inputs for a size. All ranks try the same
    sizes: whether one has a plan, what it needs and what it took are agreed on by all."""

    #: A larger size is the goal, not a batch in parts.
    rows: int | None = None
    is_on_ranks = True

    def __init__(self, make_step: Callable, settings: Mapping[str, Any], asked: Asked,
                 ranks: TuningRanks):
        self._make_step, self._settings, self._ranks = make_step, settings, ranks
        self._asked = asked

    @property
    def device(self) -> torch.device:
        return device_of(*self._step(1))

    def agreed(self, budget: int) -> int:
        return self._ranks.least_of_all(budget)

    def planned(self, budget: int, combination: Combination) -> Found:
        fitting: dict[int, Found] = {}

        def try_size(size: int) -> SizeTried:
            search = self._search(size)
            found = search.planned(budget, combination)
            if not found.fits:
                error = InfeasibleError(found.reason)
                error.smallest_budget = found.peak  # type: ignore[attr-defined]
                raise error
            run = search.measured(budget, found, updates=False, steps=1)
            if not run.is_within:
                raise InfeasibleError(f"a step took {format_bytes(run.peak)}")
            fitting[size] = dataclasses.replace(found, size=size)
            return SizeTried(budget, found.least_bytes, found.reason)

        sizes = LargestSize(try_size, self._settings.get("report"), self._asked)
        sizes.run(None, LARGEST)
        if sizes.largest is not None:
            return fitting[sizes.largest]
        assert sizes.reason is not None, "a size that does not fit says why"
        return not_fitting(combination, sizes.reason)

    def measured(self, budget: int, found: Found, updates: bool) -> Measured:
        return self._search(found.size or 1).measured(budget, found, updates)

    def _search(self, size: int) -> MeshSearch:
        return MeshSearch(*self._step(size), self._settings, self._ranks)

    def _step(self, size: int) -> tuple[torch.nn.Module, object]:
        """An error of the function on one rank is one on all."""
        with self._ranks.group.failing_together(f"make a step of size {size}"):
            made = step_of_size(self._make_step, size, self._asked)
        self._ranks.group.meet("try a size", str(size))
        return made
