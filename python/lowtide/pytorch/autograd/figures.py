"""What a training step is planned to take, and how long."""

from __future__ import annotations

import dataclasses

from ... import Plan
from ..budget.account import BudgetAccount
from ..budget.optimizer_state import present_state_bytes
from ..budget.predicted_time import PredictedTime
from ..budget.settings import Settings
from .gradients_in_blocks import GradientsInBlocks
from .graphs import Graphs
from .planned_graph import PlannedGraph
from .region import Region
from .step_plans import StepPlans
from .steps import Steps

#: The unit of a plan's cost, in seconds.
_MICROSECOND = 1e-6


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of the step that the latest graph is of, in bytes and seconds."""

    settings: Settings
    graphs: Graphs
    steps: Steps
    step_plans: StepPlans
    account: BudgetAccount
    gradients_in_blocks: GradientsInBlocks

    @property
    def step(self) -> list[Region]:
        return list(self.steps.of(self.graphs.latest))

    @property
    def by_plans(self) -> list[tuple[PlannedGraph, Plan]]:
        """The graphs that run, each with its plan."""
        return [(graph, self.step_plans.known(graph.region)) for graph in self.graphs.planned]

    def existing_bytes(self) -> int:
        """What is there before a step, the optimizer's state to come included."""
        if not self.graphs.planned:  # while other numbers of slices are tried
            return self.account.existing_bytes
        return (self.account.existing_bytes + self.gradients_in_blocks.kept_bytes
                + self._resident_bytes())

    def present_state_bytes(self) -> int:
        """Of what the optimizer makes by its own step, in memory: what there is now."""
        is_elsewhere = self.settings.fused_update is not None or (
            self.account.moves_state and self.account.state_bytes == 0)
        return 0 if is_elsewhere else present_state_bytes(self.settings.optimizer)

    def peak_bytes(self) -> int:
        """The most that is there at one time, by the plans."""
        blocks = sum(region.block_bytes(self.step_plans.known(region)) for region in self.step)
        beside = self.account.step_bytes_beside_blocks(region.priced for region in self.step)
        return self.existing_bytes() + blocks + beside

    def least_bytes(self) -> int:
        """About the smallest budget that the planner would find plans for."""
        blocks = sum(region.block_bytes(region.plans.smallest()) for region in self.step)
        return self.account.existing_bytes + self._resident_bytes() + blocks

    def predicted(self) -> PredictedTime:
        """How long the passes of a step are to take."""
        kept = sum((region.plain or region).keep_all_cost() for region in self.step)
        seconds = self.predicted_seconds()
        # With room for all, what another plan does could be done too.
        return PredictedTime(seconds, min(seconds, _MICROSECOND * kept))

    def predicted_seconds(self) -> float:
        """The same, without what would be where every value is kept."""
        return _MICROSECOND * sum(region.step_cost(self.step_plans.known(region))
                                  for region in self.step)

    def _resident_bytes(self) -> int:
        return max(region.priced.resident_bytes for region in self.step)
