"""What training steps move to slower memory and back, and how fast."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..budget.memory import Moved
from ..common.notices import Notices
from .graphs import Graphs
from .region import Region
from .step_plans import StepPlans

_ADVICE = (". Plans reckon with that from now on, and better ones are looked for while training "
           "goes on. lowtide.Offload(..., bandwidth=...) says how fast copies are once for all")


@dataclasses.dataclass
class CopiesOfSteps:
    """A step waits for a copy that takes longer than planned. Where that goes on from step to step,
    plans that are there get the time that they take now, and better ones are looked for in the
    background.

    ``step_seconds``: gives how long a step is planned to take.
    """

    graphs: Graphs
    step_plans: StepPlans
    notices: Notices
    step_seconds: Callable[[], float]

    def __post_init__(self):
        #: By the passes of the last step whose backward passes have run.
        self.moved = Moved()
        self._begins_step = True
        self._awaits_better_plans = False

    def begin_step(self, region: Region) -> None:
        """A step begins with this region, after one that has ended."""
        self._begins_step = True
        slower = self.graphs.slower_for(region.captured.device)
        if slower is None:
            return
        changes = slower.end_step(self.step_seconds())
        for change in changes:
            self.notices.warn_once("pace of copies", f"lowtide: {change}{_ADVICE}")
        if changes:
            for other in self.graphs.regions:
                other.retime()
        is_over = self._awaits_better_plans and not any(other.plans.is_searching
                                                        for other in self.graphs.regions)
        if changes or is_over:
            self.step_plans.choose_what_moves(region)
        self._awaits_better_plans = bool(changes) or (self._awaits_better_plans and not is_over)

    def end_pass(self, region: Region) -> None:
        """A backward pass of the region has run."""
        last = region.moves.last
        self.moved = last if self._begins_step else self.moved + last
        self._begins_step = False

    @property
    def slowdown(self) -> float:
        """How many times as long copies take as they were measured to, where they are slowest."""
        return max((slower.slowdown for slower in self.graphs.slower_memories), default=1.0)
