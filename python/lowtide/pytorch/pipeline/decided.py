"""What all ranks of a pipeline know of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from .choose_cuts import PipelineShape
from .cuts import ranges_of
from .stage_examples import Types


@dataclasses.dataclass(frozen=True)
class Decided:
    """Of a pipeline. ``types``: between blocks. ``cuts``: as of ``cheapest_cuts``."""

    types: list[Types]
    cuts: list[int]
    shape: PipelineShape
    schedule: str
    loss_fn: Callable
    budget_bytes: int | None

    def stages_of(self, rank: int) -> list[int]:
        return list(range(rank, self.shape.stages, self.shape.ranks))

    def blocks_of(self, stage: int) -> range:
        return ranges_of(self.cuts)[stage]

    def inputs_of(self, stage: int) -> Types:
        return self.types[self.cuts[stage]]

    def is_last(self, stage: int) -> bool:
        return stage == self.shape.stages - 1
