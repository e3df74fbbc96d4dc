"""Another budget for a model that may be trained at the time."""

from __future__ import annotations

import dataclasses
import threading

from ... import Error, InputError
from ..budget.account import BudgetAccount
from ..budget.budget import Budget
from ..budget.settings import Settings
from ..common.notices import warn
from .admission import Admission
from .between_passes import BetweenPasses
from .choices import Choices
from .gradients_in_blocks import GradientsInBlocks
from .graphs import Graphs
from .meter import Meter
from .place_of_state import PlaceOfState
from .place_of_values import PlaceOfValues
from .region import Region
from .room_outside import RoomOutside
from .step_plans import StepPlans
from .steps import Steps


@dataclasses.dataclass
class BudgetChange:
    """Of all passes from then on; while one runs, or the optimizer steps, of those after it.
    Pending passes that exceed it give their blocks back, and their backward passes replay them.

    ``choices``: what is made again when the budget changes.
    """

    settings: Settings
    account: BudgetAccount[Region]
    between_passes: BetweenPasses
    choices: Choices
    graphs: Graphs
    steps: Steps
    step_plans: StepPlans
    values: PlaceOfValues
    state: PlaceOfState
    admission: Admission
    gradients: GradientsInBlocks
    room_outside: RoomOutside
    meter: Meter

    def __post_init__(self):
        self._training_thread = threading.get_ident()
        self._adapts_at_next_pass = False

    def to(self, budget: Budget) -> None:
        """Raises InfeasibleError, as at the start, where no plan fits; the budget then stays."""
        if self.settings.offload is not None and budget.is_unlimited:
            raise InputError("offload needs a budget: without one all values stay in memory")
        self.between_passes.do(lambda: self._take(budget), lambda: self._take_waiting(budget),
                               may=lambda: not self.state.is_in_use)

    def note_training_thread(self) -> None:
        """It is the one that calls this."""
        self._training_thread = threading.get_ident()

    def end_before_pass(self) -> None:
        """No other pass runs when one begins, and the optimizer does not step any more."""
        self.state.end_use()
        if self._adapts_at_next_pass:
            self._adapt()

    def _take(self, budget: Budget) -> None:
        before = self.account.budget
        try:
            with self.choices.again(lambda: self.account.set_budget(before)) as choose:
                self.account.set_budget(budget)
                with self.step_plans.choosing_again():
                    choose()
                self._require_plans()
        finally:
            self.graphs.drop_retired()
        self._adapt()
        self.graphs.drop_retired()
        self.state.bring_back()

    def _take_waiting(self, budget: Budget) -> None:
        """The thread that set it does not wait for an error any more."""
        try:
            self._take(budget)
        except Error as error:
            warn(f"the budget of {budget} was set while a pass or the optimizer ran, and cannot be "
                 f"kept: {error} The budget is {self.account.budget}.")

    def _require_plans(self) -> None:
        """Raises InfeasibleError where the step has no plan within the budget as it is now. The
        optimizer's state moves or comes back, as is best."""
        if not self.graphs.regions:
            return
        latest = self.graphs.latest.leader
        slower = self.graphs.slower_for(latest.captured.device)
        might_move = self.values.may_move
        try:
            self.graphs.choose_what_moves(latest)
            for one in dict.fromkeys([*self.graphs.largest_of_ranges, latest]):
                for region in self.steps.of(one):
                    self.step_plans.require(region)
            self.state.settle(latest.captured.device, slower)
        except BaseException:
            self.state.give_up(self.graphs.regions, slower)
            self.values.set(might_move)
            raise

    def _adapt(self) -> None:
        """Gives back what the new budget has no room for. Gradients are left to the next pass by
        other threads than the one that trains: it may clip or drop them now, and PyTorch lets only
        one thread at a time have ``.grad``."""
        self.room_outside.seek_again()
        self._adapts_at_next_pass = threading.get_ident() != self._training_thread
        if self.graphs.regions:
            region = self.graphs.latest
            if not self._adapts_at_next_pass:
                self.gradients.leave_for_budget(region)
            self.admission.shrink(region, self._replay_bytes(region))
            if not self._adapts_at_next_pass and not self.admission.is_within(region):
                warn(f"the budget of {self.account.budget} is exceeded until this step is over. "
                     f"{self.admission.describe_taken(region)}")
        self.meter.restart()

    def _replay_bytes(self, region: Region) -> int:
        """What a pass of a step with this region takes at most that runs again."""
        return max(other.block_bytes(self.step_plans.known(other)) + other.priced.uncounted_bytes
                   for other in self.steps.of(region))
