"""What training steps move to slower memory and back, and how fast."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ... import Plan
from ..budget.may_move import MayMove
from ..budget.memory import Moved
from ..common.notices import Notices
from .graphs import Graphs
from .place_of_values import PlaceOfValues
from .region import Region
from .step_plans import StepPlans

_ADVICE = (". Plans reckon with that from now on, and better ones are looked for while training "
           "goes on. lowtide.Offload(..., bandwidth=...) says how fast copies are once for all")


@dataclasses.dataclass
class CopiesOfSteps:
    """A step waits for a copy that takes longer than planned. Where that goes on from step to step,
    plans that are there get the time that they take now, and better ones are looked for in the
    background. What moves is chosen again by that, and where such a search is over.

    ``step_seconds``: gives how long a step is planned to take.
    """

    graphs: Graphs
    step_plans: StepPlans
    values: PlaceOfValues
    notices: Notices
    step_seconds: Callable[[], float]

    def __post_init__(self):
        #: By the passes of the last step whose backward passes have run.
        self.moved = Moved()
        self._begins_step = True
        self._searches = 0
        #: What moved before that was chosen again, until a step has ended since.
        self._moved_before: MayMove | None = None

    def begin_step(self, region: Region) -> None:
        """A step begins with this region, after one that has ended."""
        self._begins_step = True
        slower = self.graphs.slower_for(region.captured.device)
        if slower is None:
            return
        changes = slower.end_step(self.step_seconds)
        for place, change in changes.items():
            self.notices.warn_once(f"pace of {place}", f"lowtide: {change}{_ADVICE}")
        if changes or self._count_searches() < self._searches:
            before = self.values.may_move
            self.step_plans.choose_what_moves(region)
            self._moved_before = None if self.values.may_move is before else before
        self._searches = self._count_searches()

    def _count_searches(self) -> int:
        """That go on in the background."""
        return sum(region.searches for region in self.graphs.regions)

    def give_up(self, region: Region, plan: Plan) -> bool:
        """There is no room for the plan of a region. Whether it was found in the background, or
        what moves was chosen since the last step, so that there is another plan now."""
        before, self._moved_before = self._moved_before, None
        is_begun = any(other.pending_passes for other in self.graphs.regions)
        if region.plans.give_up(plan):
            if not is_begun:
                self.step_plans.choose_what_moves(region)
            return True
        if before is None or is_begun:
            return False
        self.values.set(before)
        return True

    def end_pass(self, region: Region) -> None:
        """A backward pass of the region has run."""
        last = region.passes.moves.last
        self.moved = last if self._begins_step else self.moved + last
        self._begins_step = False
        self._moved_before = None

    @property
    def slowdown(self) -> float:
        """How many times as long copies take as they were measured to, where they are slowest."""
        return max((times for slower in self.graphs.slower_memories for times in slower.pace),
                   default=1.0)
