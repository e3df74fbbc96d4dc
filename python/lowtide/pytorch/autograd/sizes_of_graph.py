"""The regions of one graph at the sizes of a range: the largest is planned, the others follow."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ... import Graph, InfeasibleError, Plan
from ..budget.account import BudgetAccount
from ..budget.settings import Settings
from ..common.notices import Notices
from ..plans.planning import PricedGraph
from ..plans.plans_of_size import PlansOfSize, PlansOfSizeOnRanks
from ..plans.sectioned_plans import SectionedGraphPlans
from ..plans.size_family import SizeFamily

if TYPE_CHECKING:
    from .region import Region


class SizesOfGraph:
    """``largest``: the region of the largest size, which is the first to be there."""

    def __init__(self, family: SizeFamily):
        self._family = family
        self.largest: Region | None = None
        self._account: BudgetAccount[Region] | None = None

    @property
    def stashes(self) -> tuple[str, ...]:
        """The names of those that all sizes have, when the largest is there."""
        assert self.largest is not None
        return self.largest.stash_names

    def with_costs(self, graph: Graph, stashes: tuple[str, ...]) -> Graph:
        """A graph of one of the sizes, with these stashes, with costs."""
        return self._family.with_costs(graph, stashes, is_largest=self.largest is None)

    def lead(self, region: Region, account: BudgetAccount[Region], settings: Settings) -> None:
        """``region`` is the largest, and has a plan. The others follow what is decided here, for
        results that the caller drops as expected and, as that may turn out otherwise, for results
        that it holds."""
        for dropped in {region.results.now, frozenset()}:
            with region.results.supposing(dropped), contextlib.suppress(InfeasibleError):
                account.invalidate()
                budget = account.share(region)
                if budget is not None:
                    plan = _within(region, budget)
                    self._family.decide(region.priced, plan, region.stash_names, dropped,
                                        region.captured.device, budget, settings)
        account.invalidate()
        self.largest, self._account = region, account

    def plans(self, priced: PricedGraph, settings: Settings, dropped: frozenset[int],
              after_bytes: int, seen_bytes: int, notices: Notices) -> SectionedGraphPlans:
        """Of a size that is not the largest."""
        if settings.layout is not None:
            return PlansOfSizeOnRanks(priced, settings, self._leading, after_bytes, seen_bytes,
                                      notices)
        return PlansOfSize(priced, settings, self._family.decisions(dropped), after_bytes,
                           seen_bytes, notices)

    def _leading(self) -> tuple[PricedGraph, Plan]:
        """The graph of the largest size, and the plan by which it runs as things are now."""
        assert self.largest is not None and self._account is not None
        share = self._account.share(self.largest)
        return self.largest.priced, _within(self.largest, share)


def _within(region: Region, budget_bytes: int | None) -> Plan:
    """Where held results leave the largest size no plan, smaller ones have that of the fewest
    bytes."""
    try:
        return region.plans.within(budget_bytes)
    except InfeasibleError:
        return region.plans.smallest()
