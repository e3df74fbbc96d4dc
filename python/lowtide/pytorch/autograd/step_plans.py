"""The plan of each graph of a model, within its share of the budget as things are."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator

from ... import InfeasibleError, Plan, format_bytes
from ..budget.account import BudgetAccount
from ..budget.may_move import MayMove
from ..budget.settings import Settings
from ..common.notices import Notices
from ..plans.graph_plans import BRIEF_SECONDS
from ..plans.planning import NoPlan, Refusal
from .place_of_state import PlaceOfState
from .place_of_values import PlaceOfValues
from .region import Region
from .steps import Steps


class StepPlans:
    """Which plan a graph runs by: within its share of the budget where there is one, by what may
    move, and else by the settings an error, or the plan that needs the least.

    ``state``: of the optimizer, whose remark stands at the end of errors. ``has_run``,
    ``has_trained``: whether a forward pass was run, and a step to its end; their owner sets these
    and the others.
    """

    def __init__(self, settings: Settings, account: BudgetAccount[Region], steps: Steps,
                 values: PlaceOfValues, notices: Notices, state: PlaceOfState):
        self._settings, self._account, self._steps = settings, account, steps
        self._values, self._notices, self._state = values, notices, state
        self.has_run = self.has_trained = False
        #: Whether Dynamo breaks the model into several graphs, of which the first step of each size
        #: is to show the others.
        self.is_in_pieces = False
        #: Whether plans are only compared: then one that does not fit is an error.
        self.are_compared = False
        #: Whether graphs are chosen for another budget: then a search is made for each.
        self._are_chosen_again = False
        #: Whether there are plans for other sizes or other graphs already.
        self.has_others = False
        self._searches_for_others = False

    @contextlib.contextmanager
    def searching_even_for_others(self, searches: bool) -> Iterator[None]:
        """While it lasts, where ``searches``, plans beside others have the whole time limit too,
        before the first pass."""
        self._searches_for_others = searches
        try:
            yield
        finally:
            self._searches_for_others = False

    def of(self, region: Region) -> Plan:
        """How many graphs there are counts, and which gradients live."""
        try:
            return self.in_share(region)
        except InfeasibleError as error:
            return self._moving_otherwise(region) or self.smallest(region, error)

    def known(self, region: Region) -> Plan:
        """What runs, or what would where there is no plan within the budget."""
        try:
            return self.within_share(region)
        except InfeasibleError:
            return region.plans.smallest()

    def in_share(self, region: Region, leaving_all: bool = False, silent: bool = False) -> Plan:
        """The plan within the region's share, which may grow where none is found for it. Raises
        InfeasibleError. ``leaving_all``, ``silent``: as of ``SectionedGraphPlans.within``."""
        try:
            return self.within_share(region, leaving_all, silent)
        except InfeasibleError:
            is_alone = len(self._steps.of(region)) == 1
            if is_alone or not self._account.set_least(self._least_of_step(region)):
                raise
        return self.within_share(region, leaving_all, silent)

    def within_share(self, region: Region, leaving_all: bool = False, silent: bool = False) -> Plan:
        """The same within the share that the region has."""
        return region.plans.within(self._account.share(region),
                                   soon=self.takes_what_is_there, leaving_all=leaving_all,
                                   silent=silent)

    @property
    def takes_what_is_there(self) -> bool:
        """Whether a run waits, so that a plan which is at hand is taken."""
        is_beside_others = self.has_others and not self._searches_for_others
        return (self.has_run or is_beside_others) and not self._are_chosen_again

    def limited(self, settings: Settings) -> Settings:
        """Of a search that is made now: one for another budget takes a second."""
        if not self._are_chosen_again or settings.time_limit <= BRIEF_SECONDS:
            return settings
        return dataclasses.replace(settings, time_limit=BRIEF_SECONDS)

    @contextlib.contextmanager
    def choosing_again(self) -> Iterator[None]:
        """While it lasts, no plan is taken because it is at hand."""
        self._are_chosen_again = True
        try:
            yield
        finally:
            self._are_chosen_again = False

    def require(self, region: Region) -> None:
        """Raises InfeasibleError where there is none within the share, unless the settings want a
        warning then."""
        try:
            self.within_share(region)
        except InfeasibleError as error:
            if self._settings.when_infeasible != "warn":
                raise self.explained(region, error) from None

    def choose_what_moves(self, region: Region) -> None:
        """By the step that the region is of. Where nothing fits, that is left to who asks for a
        plan."""
        with contextlib.suppress(InfeasibleError):
            self._values.choose(self._steps.of(region), self.in_share)

    def leaving_all(self, region: Region) -> Plan:
        """The plan by what moves best, where the optimizer has all room that its step takes. Raises
        InfeasibleError."""
        self._values.choose(self._steps.of(region),
                            lambda other: self.in_share(other, leaving_all=True))
        return self.in_share(region, leaving_all=True)

    def leaving_some(self, region: Region) -> Plan:
        """The same where the optimizer may have less room."""
        self._values.choose(self._steps.of(region), self.in_share)
        return self.in_share(region)

    @property
    def may_exceed(self) -> bool:
        """Whether the settings want that a step runs for which no plan fits. A budget that none
        fits is not set by itself."""
        chosen = self._settings.when_infeasible
        waits = self.has_trained and not self._are_chosen_again
        return (chosen == "warn" or (chosen is None and waits)
                or (self._is_share_of_pieces and not self._steps.knows_any))

    @property
    def _is_share_of_pieces(self) -> bool:
        return self._account.budget.share is not None and self.is_in_pieces

    def smallest(self, region: Region, error: InfeasibleError) -> Plan:
        """What runs where nothing fits. Raises InfeasibleError where the settings want that."""
        # Whether of its step only some graphs are known. That these do not fit in a share of what
        # they take says nothing.
        is_of_a_part = self._is_share_of_pieces and not self._steps.knows(region)
        if self.are_compared or not (is_of_a_part or self.may_exceed):
            raise self.explained(region, error) from None  # a name for it would keep this frame
        if is_of_a_part:
            return region.plans.smallest()
        reason, limit = self.explained(region, error), self._account.budget_bytes
        fits_alone = limit is not None and reason.smallest_budget <= limit
        exceeding = (f"has no plan within what is free of the budget of {self._account.budget}, so "
                     f"that this step exceeds it" if fits_alone else
                     f"has no plan within its part of the budget of {self._account.budget}, so "
                     f"that steps exceed it")
        self._notices.warn_once(
            f"infeasible {region.name} {fits_alone}",
            f"{region.name} {exceeding}: it runs by the plan that needs the least. {reason}")
        self.smallest_budget(region)
        return region.plans.smallest()

    def explained(self, region: Region, error: InfeasibleError) -> NoPlan:
        """The error with the smallest budget of the whole model that does, as ``wrap`` takes it."""
        present = self._values.may_move
        smallest = self.smallest_budget(region)
        why = error.refusal.why_not_less if isinstance(error, NoPlan) else str(error)
        known = "" if self.has_trained else (
            ", as far as the first step is known (graphs behind a break and further forward passes "
            "may need more)")
        message = (f"infeasible: the smallest budget that does is {format_bytes(smallest)} "
                   f"({smallest} bytes){known}. {why} {self._account.describe_reserved()}"
                   f"{self._state.remark}")
        self._values.set(present)
        return NoPlan(Refusal(message), smallest)

    def smallest_budget(self, region: Region) -> int:
        """The smallest budget that does, wherever the optimizer's state may lie. Values then move
        as by the plans that need the smallest one with the state where it is to be."""
        smallest = self._smallest_as_it_is(region)
        present = self._values.may_move
        step = self._steps.of(region)
        with self._state.counted_in_memory(step) as is_otherwise:
            # Buffers for copies may take more than the state.
            if is_otherwise and self._least_bound(step) < smallest:
                smallest = min(smallest, self._smallest_as_it_is(region))
        self._values.set(present)
        return smallest

    def _least_bound(self, step: Iterable[Region]) -> int:
        """Below which no budget does, as things are."""
        self._values.set(MayMove.NOTHING)  # and no buffers
        return self._account.smallest_sufficient(
            {other: other.priced.floor_bytes for other in step})

    def _smallest_as_it_is(self, region: Region) -> int:
        return self._values.choose_smallest(
            self._steps.of(region),
            lambda: self._account.smallest_sufficient(self._least_of_step(region)))

    def _moving_otherwise(self, region: Region) -> Plan | None:
        """A step may have become larger since it was chosen what moves."""
        for _ in self._values.others(self._steps.of(region)):
            with contextlib.suppress(InfeasibleError):
                return self.in_share(region)
        return None

    def _least_of_step(self, region: Region) -> dict[Region, int]:
        """What the graphs that run in one step with this one need by their smallest plans."""
        return {other: other.least_bytes for other in self._steps.of(region)}
