"""Several graphs of the same code, of which the fastest is to stay."""

from __future__ import annotations

import dataclasses
import math

from .attempt import Chosen, Costs
from .region import Region


@dataclasses.dataclass
class Comparison:
    """What holds for a graph that is added to a session for a comparison.

    ``seconds``: of planning at most. ``below``: a plan is to cost less. ``whole_bytes``: what the
    code takes when all values are kept, by the first of its graphs: a budget that is a share is one
    of that. ``costs``: of the graphs that were added since ``begin``, together, and ``keeps_all``:
    whether all of them keep all values.
    """

    seconds: float
    below: float = math.inf
    whole_bytes: int | None = None
    costs: Costs = dataclasses.field(default_factory=dict)
    keeps_all: bool = True

    def begin(self) -> None:
        self.costs, self.keeps_all = {}, True

    def note(self, chosen: Chosen) -> None:
        """A graph was added."""
        self.costs = {key: self.costs.get(key, 0.0) + cost for key, cost in chosen.costs.items()}
        self.keeps_all = self.keeps_all and chosen.keeps_all

    def require_use_of(self, region: Region) -> None:
        """Raises TooSlow where no plan of the region costs as little as it is to."""
        if self.whole_bytes is None:
            self.whole_bytes = region.whole_bytes
        region.count_shares_of(self.whole_bytes)
        if region.priced.keep_all_cost >= self.below:
            raise TooSlow


class TooSlow(Exception):
    """No plan of the graph costs as little as it is to."""
