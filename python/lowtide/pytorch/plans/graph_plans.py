"""The plans of one captured graph, by the budget that each was made for."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable

from ... import InfeasibleError, Plan, StoppedError, _core, format_bytes, keep_all
from ...interruptible import in_background
from ..budget.settings import Settings
from .agreed_plans import plan_of_ranks
from .needed_bytes import needed_bytes
from .planning import (
    NoPlan,
    PricedGraph,
    Refusal,
    plan_keeping_all,
    plan_within,
    store_for,
    stored_plan,
    transfer,
)

#: Seconds for a plan that a training run waits for; a better one is looked for meanwhile.
BRIEF_SECONDS = 1.0

#: Budgets that are tried where values that move may take less memory than reruns alone.
_STEPS_TO_SMALLEST = 6

#: Better plans are looked for one after the other: the training run needs the processor too.
_ONE_SEARCH_AT_A_TIME = threading.Lock()


class GraphPlans:
    """Makes plans and remembers them.

    ``relatives``: the plans of the model's other graphs. What was decided for the same ops with
    other sizes is tried before anything is searched for.
    """

    def __init__(self, priced: PricedGraph, settings: Settings,
                 relatives: Iterable[GraphPlans] = ()):
        self.priced = priced
        self._settings = settings
        self._relatives = relatives
        self._store = store_for(priced, settings)
        self._found: dict[int | None, Plan] = {}
        #: By budget: the time limit by which its plan was found.
        self._limits: dict[int | None, float] = {}
        self._refusals: dict[int | None, Refusal] = {}
        #: In the background; each is set when it is over.
        self._searches: list[threading.Event] = []
        self._smallest: Plan | None = None
        #: By budget: the plan before those that were found in the background.
        self._before: dict[int | None, Plan] = {}
        #: How fast the copies of the plans are taken to be, and the budgets whose plans were made
        #: for others.
        self._pace = _pace(priced)
        self._of_other_pace: set[int | None] = set()

    def within(self, budget_bytes: int | None, *, soon: bool = False) -> Plan:
        """The plan for so many bytes, residents included. Raises InfeasibleError.

        With ``soon``, one that is at hand or takes a second, and a better one later, when a thread
        has found it.
        """
        self._follow_pace()
        if budget_bytes is not None and budget_bytes < self.priced.floor_bytes:
            budget_bytes = self._hopeless_bytes
        if budget_bytes in self._refusals:
            raise NoPlan(self._refusals[budget_bytes])
        if budget_bytes not in self._found:
            make = self._find_soon if soon else self._find
            self._limits[budget_bytes] = self._settings.time_limit
            try:
                self._found[budget_bytes] = plan_of_ranks(
                    self.priced.graph, self._settings, budget_bytes,
                    lambda wanted: self._kept_unmoved(wanted) or make(wanted))
            except NoPlan as error:
                self._refusals[budget_bytes] = error.refusal
                raise
        if budget_bytes in self._of_other_pace:
            self._of_other_pace.discard(budget_bytes)
            self._improve_in_background(budget_bytes, self._found[budget_bytes])
        return self._found[budget_bytes]

    def search_by(self, settings: Settings) -> None:
        """From now on, where a plan is not there yet."""
        self._settings = settings

    def search_longer(self, settings: Settings) -> None:
        """The same, and better plans than those that are there are looked for in the background,
        where these had less time."""
        self.search_by(settings)
        for budget_bytes, plan in list(self._found.items()):
            if self._limits.pop(budget_bytes, settings.time_limit) < settings.time_limit:
                self._improve_in_background(budget_bytes, plan)

    def _follow_pace(self) -> None:
        """Where copies are not as fast any more as they were, the plans stay, with the times that
        they take now. Where one is asked for, a better one is looked for in the background."""
        slower, pace = self.priced.slower, _pace(self.priced)
        if slower is None or pace == self._pace:
            return
        self._store = store_for(self.priced, self._settings)
        if self._smallest is not None:
            self._smallest = slower.retimed(self.priced.graph, self._smallest)
        for plans in (self._found, self._before):
            for budget_bytes, plan in list(plans.items()):
                plans[budget_bytes] = slower.retimed(self.priced.graph, plan)
        self._of_other_pace |= set(self._found)
        self._pace = pace

    def give_up(self, plan: Plan) -> bool:
        """There is no room to run a plan. Whether it was found in the background, so that the one
        before it is taken again."""
        for budget_bytes, found in list(self._found.items()):
            if found is plan and self._before.get(budget_bytes, plan) is not plan:
                self._found[budget_bytes] = self._before[budget_bytes]
                return True
        return False

    @property
    def searches(self) -> int:
        """How many searches for better plans go on, or are to come, in the background."""
        return sum(not over.is_set() for over in self._searches)

    def smallest(self) -> Plan:
        """The plan of the fewest bytes that is found, residents included.

        A search for no more than the residents finds it, whatever was refused before: so an error
        that names its bytes names the same bytes again, and a budget of so many is met.
        """
        self._follow_pace()
        if self._smallest is None:
            self._smallest = self._search_smallest()
        return self._smallest

    @property
    def least_bytes(self) -> int:
        """What a step takes by that plan, residents included."""
        return needed_bytes(self.priced.graph, self.smallest())

    def found(self) -> list[Plan]:
        """All that were found, for whatever budgets."""
        return list(tuple(self._found.values()))

    @property
    def _hopeless_bytes(self) -> int:
        """A budget that no plan fits. Which one is asked for matters to a search: below the floor,
        all are asked for as this one, so that they get the same answer from one search."""
        return min(self.priced.resident_bytes + 1, self.priced.floor_bytes - 1)

    def _search_smallest(self) -> Plan:
        try:
            return GraphPlans.within(self, self._hopeless_bytes)
        except NoPlan as error:
            found = error.refusal.smallest_plan
        found = found or plan_keeping_all(self.priced.graph)
        return found if self.priced.slower is None else self._smaller_by_moves(found)

    def _smaller_by_moves(self, found: Plan) -> Plan:
        """Values that move may take less memory than any reruns: looked for between what every plan
        needs and what was found."""
        brief = dataclasses.replace(self._settings, time_limit=min(BRIEF_SECONDS,
                                                                   self._settings.time_limit))
        low = self.priced.floor_bytes
        for _ in range(_STEPS_TO_SMALLEST):
            if needed_bytes(self.priced.graph, found) <= low:
                break
            middle = (low + needed_bytes(self.priced.graph, found)) // 2
            try:
                found = plan_of_ranks(self.priced.graph, self._settings, middle,
                                      lambda wanted: self._search(wanted, brief))
            except NoPlan:
                low = middle + 1
        return found

    def _find(self, budget_bytes: int | None) -> Plan:
        found, searched = stored_plan(budget_bytes, self._store, self._settings)
        if found is not None and self._is_final(found, searched):
            self._settings.say(f"planned before: {format_bytes(found.arena_bytes)}")
            return found
        if found is not None and searched is not None:  # the clock cut it, or a shorter limit
            self._improve_in_background(budget_bytes, found)
            return found
        found = self._search(budget_bytes, self._settings)
        at_hand = [plan for plan in self._fitting_plans(budget_bytes) if plan.cost < found.cost]
        return min(at_hand, key=lambda plan: plan.cost, default=found)

    def _find_soon(self, budget_bytes: int | None) -> Plan:
        found, searched = stored_plan(budget_bytes, self._store, self._settings)
        if found is not None and self._is_final(found, searched):
            return found
        if found is None:
            found = self._without_search(budget_bytes)
        if found is None and self._settings.time_limit <= BRIEF_SECONDS:
            return self._find(budget_bytes)
        if found is None:
            found = self._search_briefly(budget_bytes)
        self._improve_in_background(budget_bytes, found)
        return found

    def _is_final(self, found: Plan, searched_seconds: float | None) -> bool:
        """Whether another search in the time limit would find nothing better."""
        return (found.cost <= self.priced.keep_all_cost
                or (searched_seconds or 0.0) >= self._settings.time_limit)

    def _search(self, budget_bytes: int | None, settings: Settings) -> Plan:
        return plan_within(self.priced, budget_bytes, settings, self._store)

    def _fitting_plans(self, budget_bytes: int | None) -> list[Plan]:
        """The plans for other budgets that fit this one."""
        return [plan for plan in tuple(self._found.values())
                if budget_bytes is None
                or needed_bytes(self.priced.graph, plan) <= budget_bytes]

    def _without_search(self, budget_bytes: int | None) -> Plan | None:
        """The best that fits of what needs no search: everything is kept, a plan for less memory,
        or one of a relative."""
        if budget_bytes is None:
            return None
        kept = self._keeping_all(budget_bytes)
        if kept is not None:
            return kept
        fitting = self._fitting_plans(budget_bytes) + self._of_nearest_relative(budget_bytes)
        return min(fitting, key=lambda plan: plan.cost, default=None)

    def _kept_unmoved(self, budget_bytes: int | None) -> Plan | None:
        """Where values may move and all fits: moves that ops hide cost nothing in a plan, so that
        the store may have one with moves."""
        may_move = self.priced.slower is not None and budget_bytes is not None
        return self._keeping_all(budget_bytes) if may_move else None

    def _keeping_all(self, budget_bytes: int) -> Plan | None:
        """Everything is kept; None where that does not fit."""
        return transfer(self.priced, self.priced, keep_all(self.priced.graph), budget_bytes)

    def _of_nearest_relative(self, budget_bytes: int) -> list[Plan]:
        """The plans that fit of the relative next in size, of those that have any."""
        def distance(relative):
            return abs(relative.priced.keep_all_peak_bytes - self.priced.keep_all_peak_bytes)

        others = [relative for relative in self._relatives if relative is not self]
        for relative in sorted(others, key=distance):
            plans = [transfer(self.priced, relative.priced, plan, budget_bytes)
                     for plan in relative.found()]
            fitting = [plan for plan in plans if plan is not None]
            if fitting:
                return fitting
        return []

    def _search_briefly(self, budget_bytes: int | None) -> Plan:
        try:
            quick = dataclasses.replace(self._settings, time_limit=BRIEF_SECONDS)
            return self._search(budget_bytes, quick)
        except InfeasibleError:
            return self._find(budget_bytes)

    def _improve_in_background(self, budget_bytes: int | None, first: Plan) -> None:
        alone = self._settings.group is None  # ranks take a new plan together or not at all
        if alone and first.cost > self.priced.keep_all_cost:
            self._searches = [over for over in self._searches if not over.is_set()]
            pace = self._pace
            self._searches.append(in_background(lambda: self._improve(budget_bytes, first, pace),
                                                _core, "lowtide-improve"))

    def _improve(self, budget_bytes: int | None, first: Plan, pace: tuple[float, ...]) -> None:
        """Replaces a plan that was made quickly, or for another pace of copies; the next forward
        pass takes the new one.

        A program that ends waits for the search that goes on, whose plan is there at the next
        start. No other one is begun, and none for a pace that copies do not have any more.
        """
        with _ONE_SEARCH_AT_A_TIME:
            if not threading.main_thread().is_alive() or pace != _pace(self.priced):
                return
            try:
                better = self._search(budget_bytes,
                                       dataclasses.replace(self._settings, report=None,
                                                           verbose=False))
            except (InfeasibleError, StoppedError):
                return  # the first one holds
        present = self._found.get(budget_bytes, first)
        if pace == _pace(self.priced) and better.cost < present.cost:
            self._before.setdefault(budget_bytes, present)
            self._found[budget_bytes] = better


def _pace(priced: PricedGraph) -> tuple[float, ...]:
    """How fast copies of the graph's values are taken to be now."""
    return () if priced.slower is None else priced.slower.pace
