"""Which values of a graph are held in fewer bits: those by which its plan takes the least time.

A plan makes each value in one way, so each choice is a graph of its own, which is planned. First
comes the graph without any; only where that cannot keep all values come others. First the cheapest
stashes that save what is lacking; then stashes are put in order by the time that they take for what
they save, and a search looks for how many of the first ones are the best. What is found by fewer
means is looked at too: where values may move, the search is made as if they could not, and then as
they can; where loss is allowed, first without.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from ..budget.settings import Settings
from ..capture import Captured
from ..stash import Stash, Stashes
from .attempt import SAME_COST, WAYS, Attempt, Chosen, Costs, Kind, Way
from .region import Region
from .stash_order import StashOrder, added_costs, made_once

#: Of the time limit, for each graph with stashes. The graph without has the whole limit, so that no
#: answer is worse than its.
_SHARE_WITH = 0.05

#: Sets that are tried between those that are known to be too small and too large.
_MOST_PROBES = 3


class MakeRegion(Protocol):
    def __call__(self, settings: Settings, stashes: Sequence[Stash] = (),
                 plain: Region | None = None) -> Region: ...


def cheapest_region(stashes: Stashes[Captured], settings: Settings, make: MakeRegion,
                    attempt: Callable[[Region], Attempt], smallest: Callable[[Region], int],
                    soon: bool) -> Chosen:
    """The region of a step as it is, or with some stashes where its plan takes less time; of those
    without a plan, the one of the smallest budget. ``make``: a region; ``attempt``:
    plans it; ``smallest``: gives the budget that would do for it; ``soon``: a run waits, so that
    any plan of the step as it is will do."""
    plain = attempt(make(settings))
    will_do = soon and plain.free.plan is not None
    if not stashes.found or settings.budget.is_unlimited or will_do or plain.keeps_all:
        return Chosen(plain.region, _costs([plain]), plain.keeps_all)
    briefly = dataclasses.replace(settings, time_limit=_SHARE_WITH * settings.time_limit)
    search = _SetSearch(plain, lambda chosen: make(briefly, chosen, plain.region), attempt)
    for allowed in _kinds(stashes):
        search.look(allowed)
    # Whether values move was chosen by that, too.
    best = min(search.attempts, key=lambda attempt: attempt.free.step_cost)
    if best.free.plan is None:
        best = min(search.attempts, key=lambda attempt: smallest(attempt.region))
    best.region.search_by(settings)
    return Chosen(best.region, _costs(search.attempts), keeps_all=False)


def _kinds(stashes: Stashes[Captured]) -> list[Sequence[Stash]]:
    kinds = [stashes.exact] + [stashes.found] * (len(stashes.exact) < len(stashes.found))
    return [kind for kind in kinds if kind]


def _free_cost(attempt: Attempt) -> float:
    return attempt.free.cost


def _costs(attempts: Sequence[Attempt]) -> Costs:
    return {(moves, kind): min(way(attempt).cost for attempt in attempts
                               if _kind(attempt.region) <= kind)
            for moves, way in WAYS.items() for kind in Kind}


def _kind(region: Region) -> Kind:
    if not region.stashes:
        return Kind.NONE
    return Kind.EXACT if all(stash.is_exact for stash in region.stashes) else Kind.LOSSY


class _SetSearch:
    """Sets of stashes of one step, each of which is planned once. ``plain``: the step without."""

    def __init__(self, plain: Attempt, made: Callable[[Sequence[Stash]], Region],
                 attempt: Callable[[Region], Attempt]):
        self._plain, self._made, self._attempt = plain, made, attempt
        self._by_set: dict[frozenset[str], Attempt] = {frozenset(): plain}

    @property
    def attempts(self) -> list[Attempt]:
        return list(self._by_set.values())

    def look(self, allowed: Sequence[Stash]) -> None:
        """Tries sets of these, by each way to plan them."""
        whole = self._made(allowed)
        added = added_costs(self._plain.region, whole)
        cheapest = self._plain.region.priced.keep_all_cost + sum(
            min(0.0, cost) for cost in added.values())
        if min(map(_free_cost, self.attempts)) <= cheapest * SAME_COST:
            return
        order = StashOrder(self._plain.region, added, self._plain.share or 0)
        self._tried(order.enough(allowed))
        for way in WAYS.values():
            self._descend(order.by_price(allowed), added, way)

    def _descend(self, order: Sequence[Stash], added: dict[str, float], way: Way) -> None:
        """Tries so many of the first in order, between numbers of which the middle one is the best
        so far, until there is none between them; then the best set without what its plan makes
        again."""
        costs = {0: way(self._plain).cost}
        probe = len(order)
        for _ in range(1 + _MOST_PROBES):
            if probe not in costs:
                costs[probe] = self._cost(order[:probe], added, way, min(costs.values()))
            if min(costs.values()) == math.inf:
                return
            probe = _between(costs)
        best = self._tried(order[:min(costs, key=lambda number: (costs[number], number))])
        plan = way(best).plan
        if plan is not None:
            self._tried(made_once(best.region, plan))

    def _cost(self, chosen: Sequence[Stash], added: dict[str, float], way: Way,
              least: float) -> float:
        """Of the set's plan; no more than what it takes to make the stashes where that alone is
        more than the least."""
        made = self._plain.region.priced.keep_all_cost + sum(added[stash.name] for stash in chosen)
        return made if made >= least else way(self._tried(chosen)).cost

    def _tried(self, chosen: Sequence[Stash]) -> Attempt:
        names = _names(chosen)
        if names not in self._by_set:
            self._by_set[names] = self._attempt(self._made(chosen))
        return self._by_set[names]


def _names(chosen: Sequence[Stash]) -> frozenset[str]:
    return frozenset(stash.name for stash in chosen)


def _between(costs: dict[int, float]) -> int:
    """The middle of the larger gap beside the number that costs the least; that number itself where
    there is no other between."""
    best = min(costs, key=lambda number: (costs[number], number))
    numbers = sorted(costs)
    place = numbers.index(best)
    gaps = [(numbers[other], abs(numbers[other] - best)) for other in (place - 1, place + 1)
            if 0 <= other < len(numbers)]
    other, _ = max(gaps, key=lambda gap: gap[1])
    return (best + other) // 2 if abs(other - best) > 1 else best
