"""The plan that a pass runs by, with the memory for it taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import Error, InfeasibleError, Plan, format_bytes
from ..budget.account import BudgetAccount
from ..common.notices import warn
from .admission import Admission
from .agreed_passes import AgreedPasses
from .copies_of_steps import CopiesOfSteps
from .region import Region
from .step_plans import StepPlans


class RoomForPass:
    """Chooses the plan of a pass that begins, and reserves what it needs.

    ``regions``: those of the model, whose list may grow.
    """

    def __init__(self, account: BudgetAccount, admission: Admission, agreed: AgreedPasses,
                 step_plans: StepPlans, copies: CopiesOfSteps, regions: Sequence[Region]):
        self._account = account
        self._admission = admission
        self._agreed = agreed
        self._step_plans = step_plans
        self._copies = copies
        self._regions = regions

    def forward(self, region: Region) -> Plan:
        """For a forward pass. Raises InfeasibleError where the step has no plan, and Error where
        slower memory has no room for it."""
        return self._reserved(region, lambda: self._that_fits(region))

    def replay(self, region: Region, more_bytes: int) -> Plan:
        """For a forward pass that runs again within the backward pass, beside the results of the
        first. ``more_bytes``: that are taken on some other rank."""
        return self._reserved(region, lambda: self._for_replay(region, more_bytes))

    def bring_back(self) -> None:
        """Parameters that a pass has sent away: another graph may use them."""
        for region in self._regions:
            region.passes.moves.bring_back()

    def _reserved(self, region: Region, plan: Callable[[], Plan]) -> Plan:
        """What ``plan`` gives. One that was found in the background may need more slower memory
        than there is: then the one before it."""
        found = plan()
        self.bring_back()
        while True:
            try:
                region.passes.reserve(region.priced.graph, found)
                return found
            except Error:
                if not self._copies.give_up(region, found):
                    raise
                found = plan()

    def _that_fits(self, region: Region) -> Plan:
        plan = self._step_plans.of(region)
        more = self._agreed.forward(region, plan, self._admission.taken_bytes(region))
        try:
            return self._admission.plan_that_fits(region, plan, more)
        except InfeasibleError as error:
            return self._step_plans.smallest(region, error)

    def _for_replay(self, region: Region, more_bytes: int) -> Plan:
        """A budget that was set since the forward pass may have no room for the results of both.
        Then the step ends all the same."""
        extra = region.priced.uncounted_bytes
        try:
            return self._admission.plan_that_fits(region, self._step_plans.of(region),
                                                  extra + more_bytes)
        except InfeasibleError:
            plan = self._that_fits(region)
        warn(f"the budget of {self._account.budget} is exceeded by up to {format_bytes(extra)} "
             f"until this step is over, as a forward pass runs again beside the results of the "
             f"first.")
        return plan
