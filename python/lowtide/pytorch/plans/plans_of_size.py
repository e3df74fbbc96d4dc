"""The plans of a graph at one size of a range, made without a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ... import Plan, keep_all
from ..budget.settings import Settings
from ..common.notices import Notices
from .planning import UNLIMITED_BYTES, PricedGraph, handed_out_bytes, transfer
from .same_addresses import at_same_addresses
from .sectioned_plans import SectionedGraphPlans


class PlansOfSize(SectionedGraphPlans):
    """Those that what was decided for other sizes gives: that everything is kept, or the first of
    the ``decisions`` that fits, for small sizes first and for the largest last.

    A search is left to budgets that none of them fits, as a smaller one that is set later, and to
    room for ``seen_bytes`` that none of them leaves.
    """

    def __init__(self, priced: PricedGraph, settings: Settings,
                 decisions: Sequence[tuple[PricedGraph, Plan]], after_bytes: int,
                 seen_bytes: int, notices: Notices):
        super().__init__(priced, settings, (), after_bytes, seen_bytes, notices=notices)
        self._decisions = decisions
        self._transferred: dict[int | None, Plan | None] = {}

    def within(self, budget_bytes: int | None, *, soon: bool = False,
               leaving_all: bool = False, silent: bool = False) -> Plan:
        if budget_bytes not in self._transferred:
            self._transferred[budget_bytes] = (
                next(self._fitting(UNLIMITED_BYTES), None) if budget_bytes is None
                else self._transfer(budget_bytes, soon, silent))
        return self._transferred[budget_bytes] or super().within(
            budget_bytes, soon=soon, leaving_all=leaving_all, silent=silent)

    def _transfer(self, budget_bytes: int, soon: bool, silent: bool) -> Plan | None:
        free = budget_bytes - handed_out_bytes(self.priced.graph)
        if self._after_bytes < self._seen_bytes <= free:
            found = next(self._leaving_by_decisions(self._seen_bytes, budget_bytes), None)
            found = found or self._leaving_what_was_seen(budget_bytes, soon)
            if found is not None:
                return found
        found = next(self._fitting(budget_bytes), None)
        if found is not None and self._after_bytes < self._seen_bytes and not silent:
            self._warn_of(self._seen_bytes - self._after_bytes)
        return found

    def _leaving_by_decisions(self, after_bytes: int, budget_bytes: int) -> Iterator[Plan]:
        graph = self.priced.graph.with_after_bytes(after_bytes)
        priced = dataclasses.replace(self.priced, graph=graph)
        for other, plan in [(priced, keep_all(priced.graph)), *self._decisions]:
            found = transfer(priced, other, plan, budget_bytes)
            if found is not None:
                yield found

    def _fitting(self, budget_bytes: int) -> Iterator[Plan]:
        free = budget_bytes - handed_out_bytes(self.priced.graph)
        yield from self._leaving_by_decisions(max(0, min(self._after_bytes, free)), budget_bytes)
        for _, plan in self._decisions[-1:]:
            found = at_same_addresses(self.priced.graph, plan, budget_bytes)
            if found is not None:
                yield found
