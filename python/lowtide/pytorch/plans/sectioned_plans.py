"""The plans of one captured graph that leave room for what follows its passes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ... import InfeasibleError, Plan, format_bytes
from ..budget.settings import Settings
from ..common.notices import Notices
from .graph_plans import GraphPlans
from .needed_bytes import needed_bytes
from .planning import NoPlan, PricedGraph, handed_out_bytes

_NO_ROOM_AFTERWARDS = (
    "lowtide: within this budget, no plan was found that also leaves room for what follows the "
    "backward pass, which is the optimizer's own step, the next batch, or other code between two "
    "steps, such as the forward pass of a teacher: up to {} beyond the budget meanwhile.")

#: Of the bytes that are taken after a step, where no plan leaves all of them; the first that a plan
#: leaves counts. Shares of a small part of the budget are not worth a search each.
_SHARES_LEFT = (0.75, 0.5, 0.25)
_SMALL_SHARE = 0.01


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

    def give_up(self, plan: Plan) -> bool:
        return super().give_up(plan) or any(plans.give_up(plan)
                                            for plans in self._sectioned.values())

    @property
    def searches(self) -> int:
        return super().searches + sum(plans.searches for plans in self._sectioned.values())

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
