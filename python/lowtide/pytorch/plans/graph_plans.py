"""The plans of one captured graph, by the budget that each was made for."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable

from ... import InfeasibleError, Plan, StoppedError, _core, format_bytes, keep_all
from ...interruptible import in_background
from ..budget.settings import Settings
from ..common.notices import Notices
from .agreed_plans import plan_of_ranks
from .needed_bytes import needed_bytes
from .planning import (
    NoPlan,
    PricedGraph,
    Refusal,
    handed_out_bytes,
    plan_keeping_all,
    plan_within,
    store_for,
    stored_plan,
    transfer,
)

_NO_ROOM_AFTERWARDS = (
    "lowtide: within this budget, no plan was found that also leaves room for what follows the "
    "backward pass, which is the optimizer's own step, the next batch, or other code between two "
    "steps, such as the forward pass of a teacher: up to {} beyond the budget meanwhile.")

#: Of the bytes that are taken after a step, where no plan leaves all of them; the first that a plan
#: leaves counts. Shares of a small part of the budget are not worth a search each.
_SHARES_LEFT = (0.75, 0.5, 0.25)
_SMALL_SHARE = 0.01

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
        self._times_retimed = 0
        self._smallest: Plan | None = None

    def within(self, budget_bytes: int | None, *, soon: bool = False) -> Plan:
        """The plan for so many bytes, residents included. Raises InfeasibleError.

        With ``soon``, one that is at hand or takes a second, and a better one later, when a thread
        has found it.
        """
        if budget_bytes is not None and budget_bytes < self.priced.floor_bytes:
            budget_bytes = self._hopeless_bytes
        if budget_bytes in self._refusals:
            raise NoPlan(self._refusals[budget_bytes])
        if budget_bytes not in self._found:
            make = self._find_soon if soon else self._find
            self._limits[budget_bytes] = self._settings.time_limit
            try:
                self._found[budget_bytes] = self._kept_unmoved(budget_bytes) or plan_of_ranks(
                    self.priced.graph, self._settings.group, budget_bytes, make)
            except NoPlan as error:
                self._refusals[budget_bytes] = error.refusal
                raise
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

    def retime(self) -> None:
        """The slower memory has another speed than the plans were made for. They stay, with the
        times that they take now, and better ones are looked for in the background."""
        slower = self.priced.slower
        if slower is None:
            return
        self._times_retimed += 1
        self._store = store_for(self.priced, self._settings)
        if self._smallest is not None:
            self._smallest = slower.retimed(self.priced.graph, self._smallest)
        for budget_bytes, plan in list(self._found.items()):
            self._found[budget_bytes] = slower.retimed(self.priced.graph, plan)
            self._improve_in_background(budget_bytes, self._found[budget_bytes])

    @property
    def is_searching(self) -> bool:
        """Whether a better plan is looked for in the background."""
        return any(not over.is_set() for over in self._searches)

    def smallest(self) -> Plan:
        """The plan of the fewest bytes that is found, residents included.

        A search for no more than the residents finds it, whatever was refused before: so an error
        that names its bytes names the same bytes again, and a budget of so many is met.
        """
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
                found = self._search(middle, brief)
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
            self._searches.append(in_background(lambda: self._improve(budget_bytes, first), _core,
                                                "lowtide-improve"))

    def _improve(self, budget_bytes: int | None, first: Plan) -> None:
        """Replaces a plan that was made quickly; the next forward pass takes the new one.

        A program that ends waits for the search that goes on, whose plan is there at the next
        start. No other one is begun.
        """
        times_retimed = self._times_retimed
        with _ONE_SEARCH_AT_A_TIME:
            if not threading.main_thread().is_alive():
                return
            try:
                better = self._search(budget_bytes,
                                       dataclasses.replace(self._settings, report=None,
                                                           verbose=False))
            except (InfeasibleError, StoppedError):
                return  # the first one holds
        if better.cost < first.cost and times_retimed == self._times_retimed:
            self._found[budget_bytes] = better


class SectionedGraphPlans(GraphPlans):
    """Those whose block may be given back in part after the backward pass, so that the budget has
    room for the ``after_bytes`` of what follows beside the gradients, or for the largest share of
    them that a plan is found for. ``seen_bytes``: that were seen to follow; plans have room for all
    of them or do without, as they may not come again. ``notices``: of the whole model."""

    def __init__(self, priced: PricedGraph, settings: Settings,
                 relatives: Iterable[GraphPlans] = (), after_bytes: int = 0, seen_bytes: int = 0,
                 *, notices: Notices):
        super().__init__(priced, settings, relatives)
        self._after_bytes, self._seen_bytes = after_bytes, max(after_bytes, seen_bytes)
        self._notices = notices
        self._handed_out = handed_out_bytes(priced.graph)
        self._sectioned: dict[int, GraphPlans] = {}
        self._must_leave_all = bool(settings.layout is not None and after_bytes)

    def within(self, budget_bytes: int | None, *, soon: bool = False,
               leaving_all: bool = False, silent: bool = False) -> Plan:
        """With ``leaving_all``, also raises where no plan leaves all that is wanted, as it always
        does on several ranks. With ``silent``, nothing is said of what is not left."""
        if budget_bytes is None:
            return super().within(budget_bytes, soon=soon)
        if self._must_leave_all:
            return self._plans_leaving(self._after_bytes).within(budget_bytes, soon=soon)
        if leaving_all and self._handed_out + self._after_bytes > budget_bytes:
            raise InfeasibleError("the optimizer's step alone takes more beside the gradients")
        plan = self._leaving_what_was_seen(budget_bytes, soon)
        if plan is not None:
            return plan
        plan, left = self._leaving_most(budget_bytes, leaving_all, soon)
        if left < self._seen_bytes and not silent:
            self._warn_of(self._seen_bytes - left)
        return plan

    def _leaving_what_was_seen(self, budget_bytes: int, soon: bool) -> Plan | None:
        fits = self._after_bytes < self._seen_bytes <= budget_bytes - self._handed_out
        return self._leaving(self._seen_bytes, budget_bytes, soon) if fits else None

    def _leaving_most(self, budget_bytes: int, leaving_all: bool, soon: bool) -> tuple[Plan, int]:
        """The plan that leaves the most of what follows for sure, and how many bytes those are."""
        wanted = max(0, min(self._after_bytes, budget_bytes - self._handed_out))
        if not wanted:
            return self._leaving_nothing(budget_bytes, soon), 0
        plan = self._leaving(wanted, budget_bytes, soon)
        if plan is not None:
            return plan, wanted
        if leaving_all:
            raise InfeasibleError("no plan leaves the optimizer's step what it takes")
        return self._leaving_less(wanted, budget_bytes, soon)

    def _leaving(self, after_bytes: int, budget_bytes: int, soon: bool) -> Plan | None:
        """The plan that leaves so many bytes; None where there is none."""
        try:
            return self._plans_leaving(after_bytes).within(budget_bytes, soon=soon)
        except InfeasibleError:
            return None

    def _leaving_less(self, wanted: int, budget_bytes: int, soon: bool) -> tuple[Plan, int]:
        """The plan that leaves the largest share of the bytes, and how many those are."""
        # Where nothing fits at all this is the error, and less to leave is not looked for.
        nothing_left = self._leaving_nothing(budget_bytes, soon)
        shares = _SHARES_LEFT if wanted > _SMALL_SHARE * budget_bytes else ()
        for left in (int(share * wanted) for share in shares):
            plan = self._leaving(left, budget_bytes, soon)
            if plan is not None:
                return plan, left
        return nothing_left, 0

    def _leaving_nothing(self, budget_bytes: int, soon: bool) -> Plan:
        try:
            return super().within(budget_bytes, soon=soon)
        except NoPlan:
            least = self.smallest()
            if needed_bytes(self.priced.graph, least) > budget_bytes:
                raise
            return self._found.setdefault(budget_bytes, least)

    def smallest(self) -> Plan:
        if self._must_leave_all:
            return self._plans_leaving(self._after_bytes).smallest()
        return super().smallest()

    @property
    def least_bytes(self) -> int:
        if self._must_leave_all:
            return self._plans_leaving(self._after_bytes).least_bytes
        return super().least_bytes

    def search_by(self, settings: Settings) -> None:
        super().search_by(settings)
        for plans in self._sectioned.values():
            plans.search_by(settings)

    def search_longer(self, settings: Settings) -> None:
        for plans in self._sectioned.values():
            plans.search_longer(settings)
        super().search_longer(settings)

    def retime(self) -> None:
        for plans in self._sectioned.values():
            plans.retime()
        super().retime()

    @property
    def is_searching(self) -> bool:
        return super().is_searching or any(plans.is_searching
                                           for plans in self._sectioned.values())

    def found(self) -> list[Plan]:
        return super().found() + [plan for plans in tuple(self._sectioned.values())
                                  for plan in plans.found()]

    def _warn_of(self, excess_bytes: int) -> None:
        self._notices.warn_of_more("after", excess_bytes,
                                   _NO_ROOM_AFTERWARDS.format(format_bytes(excess_bytes)))

    def _plans_leaving(self, after_bytes: int) -> GraphPlans:
        if after_bytes not in self._sectioned:
            graph = self.priced.graph.with_after_bytes(after_bytes)
            priced = dataclasses.replace(self.priced, graph=graph)
            self._sectioned[after_bytes] = GraphPlans(priced, self._settings, self._relatives)
        return self._sectioned[after_bytes]
