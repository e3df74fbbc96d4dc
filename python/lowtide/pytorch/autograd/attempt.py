"""What planning a graph came to, by what the plan may do."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping

from ... import Plan
from .region import Region

#: Costs that differ by less are the same.
SAME_COST = 1 + 1e-9


class Kind(enum.IntEnum):
    """Which stashes a graph may have. Each allows what those before it do."""

    NONE = 0
    EXACT = 1
    LOSSY = 2


#: By what is allowed, whether values move and which stashes: the cost of the best plan, infinite
#: where there is none.
Costs = Mapping[tuple[bool, Kind], float]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """``cost``: of the plan and of what it needs beside it. ``step_cost``: the same, where
    collectives run beside ops."""

    plan: Plan | None = None
    cost: float = math.inf
    step_cost: float = math.inf


@dataclasses.dataclass(frozen=True)
class Attempt:
    """``unmoved``: where nothing may move, within ``share`` bytes, None where there is no limit or
    nothing fits; ``free``: where all may that the settings allow."""

    region: Region
    share: int | None = None
    unmoved: Outcome = Outcome()
    free: Outcome = Outcome()

    @property
    def keeps_all(self) -> bool:
        """Whether it fits without anything that saves memory."""
        return self.unmoved.cost <= self.region.priced.keep_all_cost * SAME_COST


#: One of the two outcomes of an attempt.
Way = Callable[[Attempt], Outcome]

WAYS: dict[bool, Way] = {False: lambda attempt: attempt.unmoved, True: lambda attempt: attempt.free}


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The region that a graph runs by, and the costs of all from which it was chosen."""

    region: Region
    costs: Costs
    keeps_all: bool
