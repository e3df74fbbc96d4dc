"""The plans of a graph at one size of a range, made without a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ... import Plan, keep_all
from ..budget.settings import Settings
from ..common.notices import Notices
from .graph_plans import SectionedGraphPlans
from .planning import UNLIMITED_BYTES, PricedGraph, handed_out_bytes, transfer
from .same_addresses import at_same_addresses


class PlansOfSize(SectionedGraphPlans):
    """Those that what was decided for other sizes gives: that everything is kept, or the first of
    the ``decisions`` that fits, for small sizes first and for the largest last.

    A search is left to budgets that none of them fits, as a smaller one that is set later.
    """

    def __init__(self, priced: PricedGraph, settings: Settings,
                 decisions: Sequence[tuple[PricedGraph, Plan]], after_bytes: int,
                 notices: Notices):
        super().__init__(priced, settings, after_bytes=after_bytes, notices=notices)
        self._decisions, self._room_after = decisions, after_bytes
        self._transferred: dict[int | None, Plan | None] = {}

    def within(self, budget_bytes: int | None, *, soon: bool = False,
               leaving_all: bool = False, silent: bool = False) -> Plan:
        if budget_bytes not in self._transferred:
            limit = UNLIMITED_BYTES if budget_bytes is None else budget_bytes
            self._transferred[budget_bytes] = next(self._fitting(limit), None)
        return self._transferred[budget_bytes] or super().within(
            budget_bytes, soon=soon, leaving_all=leaving_all, silent=silent)

    def _fitting(self, budget_bytes: int) -> Iterator[Plan]:
        wanted = max(0, min(self._room_after, budget_bytes - handed_out_bytes(self.priced.graph)))
        priced = dataclasses.replace(self.priced, graph=self.priced.graph.with_after_bytes(wanted))
        for other, plan in [(priced, keep_all(priced.graph)), *self._decisions]:
            found = transfer(priced, other, plan, budget_bytes)
            if found is not None:
                yield found
        for _, plan in self._decisions[-1:]:
            found = at_same_addresses(self.priced.graph, plan, budget_bytes)
            if found is not None:
                yield found
