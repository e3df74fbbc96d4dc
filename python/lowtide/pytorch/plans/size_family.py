"""The same ops at the sizes of a range: measured at some, planned at some, run at all."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from ... import Graph, InfeasibleError, Plan
from ..budget.settings import Settings
from .costs_between import CostsBetween
from .graph_plans import GraphPlans
from .measuring_time import microseconds_to_measure
from .planning import PricedGraph, keep_all_bytes, price

#: Of the time limit, for the plan of each size between the smallest and the largest.
_SHARE_BETWEEN = 0.1

#: Of stashes: the names of those that a graph has.
Names = tuple[str, ...]


class SizeFamily:
    """``captured_at``: by size, smallest first, the last one the largest: the graph with these
    stashes, without costs. ``measure``: measures one, of which it is told how many microseconds
    that takes at least; ``measure_here``: one of another size, which other ranks may not have.

    The largest is planned by a search. The others run by what was decided for it and for the sizes
    that graphs were captured at, laid out again; or at its addresses, where each value of a smaller
    size has room.
    """

    def __init__(self, captured_at: Sequence[Callable[[Names], Graph]],
                 measure: Callable[[Graph, float | None], Graph],
                 measure_here: Callable[[Graph], Graph]):
        self._captured_at, self._measure = captured_at, measure
        self._measure_here = measure_here
        self._measured: dict[Names, list[Graph]] = {}
        self._costs: dict[Names, CostsBetween] = {}
        #: By which results the caller drops: decisions of sizes, smallest first.
        self._decisions: dict[frozenset[int], list[tuple[PricedGraph, Plan]]] = {}

    def with_costs(self, graph: Graph, names: Names, is_largest: bool) -> Graph:
        """One of the family, with costs. It is measured where they do not follow from those of
        other sizes."""
        found = self._costs_with(names).of(graph)
        if found is not None:
            return found
        return self._measure(graph, None) if is_largest else self._measure_here(graph)

    def decide(self, largest: PricedGraph, plan: Plan, names: Names, dropped: frozenset[int],
               device: str, budget_bytes: int, settings: Settings) -> None:
        """Plans the sizes below the largest that do not keep all. ``plan``: of the largest, by
        which it runs within the budget."""
        brief = dataclasses.replace(settings, time_limit=_SHARE_BETWEEN * settings.time_limit)
        found = []
        for graph in self._measured_with(names)[:-1]:
            priced = price(graph.with_results_dropped(sorted(dropped)), device, bool(dropped))
            if keep_all_bytes(graph) <= budget_bytes:
                continue
            with contextlib.suppress(InfeasibleError):
                found.append((priced, GraphPlans(priced, brief).within(budget_bytes)))
        self._decisions[dropped] = [*found, (largest, plan)]

    def decisions(self, dropped: frozenset[int]) -> list[tuple[PricedGraph, Plan]]:
        """For all sizes at which the caller drops these results: the graph that each was made for,
        and the plan. The last one is the largest's."""
        return self._decisions.get(dropped, [])

    def _measured_with(self, names: Names) -> list[Graph]:
        if names not in self._measured:
            measured: list[Graph] = []
            for captured in self._captured_at:
                graph = captured(names)
                measured.append(self._measure(graph, microseconds_to_measure(graph, measured)))
            self._measured[names] = measured
        return self._measured[names]

    def _costs_with(self, names: Names) -> CostsBetween:
        if names not in self._costs:
            self._costs[names] = CostsBetween(self._measured_with(names))
        return self._costs[names]
