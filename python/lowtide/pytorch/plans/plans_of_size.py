"""The plans of a graph at one size of a range, made without a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from ... import InfeasibleError, Plan, format_bytes, keep_all
from ..budget.settings import Settings
from ..common.notices import Notices
from .needed_bytes import needed_bytes
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
        for other, plan in self._orders(priced):
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

    def _orders(self, priced: PricedGraph) -> Sequence[tuple[PricedGraph, Plan]]:
        """Graphs and plans whose order of ops may be that of this one, the best first."""
        return [(priced, keep_all(priced.graph)), *self._decisions]


class PlansOfSizeOnRanks(PlansOfSize):
    """Those on one of several ranks, of which each may have another size in the same step: all run
    the ops in the order of the largest size's plan, so that their collectives meet.

    ``leading``: gives the graph of the largest size and its plan as things are now, which all ranks
    ask for together.
    """

    def __init__(self, priced: PricedGraph, settings: Settings,
                 leading: Callable[[], tuple[PricedGraph, Plan]], after_bytes: int,
                 seen_bytes: int, notices: Notices):
        super().__init__(priced, settings, (), after_bytes, seen_bytes, notices)
        self._leading = leading
        self._following: dict[tuple[int | None, Plan], Plan] = {}

    def within(self, budget_bytes: int | None, *, soon: bool = False,
               leaving_all: bool = False, silent: bool = False) -> Plan:
        self._decisions = [self._leading()]
        key = budget_bytes, self._decisions[0][1]
        if key not in self._following:
            self._following[key] = self._in_order(budget_bytes)
        return self._following[key]

    def _in_order(self, budget_bytes: int | None) -> Plan:
        largest, _ = self._decisions[0]
        name = self.priced.graph.name
        if _types(self.priced) != _types(largest):
            raise InfeasibleError(
                f"{name} has other ops than the largest size of dynamic_shapes, whose order all "
                f"ranks run, as a size does that has fewer rows than slices: give a range without "
                f"it, or fewer slices")
        wanted = UNLIMITED_BYTES if budget_bytes is None else budget_bytes
        found = next(self._fitting(wanted), None)
        if found is None:
            raise InfeasibleError(
                f"{name} has {format_bytes(wanted)}, and takes more in the order of the largest "
                f"size of dynamic_shapes, which all ranks run: widen the range to it")
        return found

    def smallest(self) -> Plan:
        return self.within(None)

    @property
    def least_bytes(self) -> int:
        return needed_bytes(self.priced.graph, self.smallest())

    def _orders(self, priced: PricedGraph) -> Sequence[tuple[PricedGraph, Plan]]:
        return self._decisions


def _types(priced: PricedGraph) -> list[str]:
    return [op.type for op in priced.graph.ops]
