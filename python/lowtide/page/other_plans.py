"""What other budgets and other strategies would give: plans that are made for the page."""

from __future__ import annotations

import dataclasses
import itertools

from .. import Graph, InputError, Plan, Planned, _core, format_bytes, frontier, plan, strategies

_POINTS = 7
#: Strategies as other programs have them, which take a moment each.
PEERS = ("chen-sqrt", "selective", "megatron", "min-cut", "dtr")
#: Of the time for all: a curve, a larger budget, and the rest for peers.
_FOR_FRONTIER, _FOR_MORE = 0.6, 0.2
#: A share of the time of a step below which a saving is none.
_NOTHING = 5e-5


@dataclasses.dataclass(frozen=True)
class Point:
    """A plan within a budget. ``overhead`` and ``bound``: of its cost, and of the least cost that
    is not excluded, as shares above keep-all; ``strategy``: which made it."""

    budget: int
    overhead: float
    bound: float | None = None
    strategy: str = "search"


@dataclasses.dataclass(frozen=True)
class OtherPlans:
    """``curve``: by falling budget, the last one of which is the smallest that was reached;
    ``floor_bytes``: no plan needs less; ``peers``: at the budget of the plan, or at the smallest
    that they reach; ``advice``: sentences."""

    curve: list[Point] = dataclasses.field(default_factory=list)
    floor_bytes: int = 0
    peers: list[Point] = dataclasses.field(default_factory=list)
    advice: list[str] = dataclasses.field(default_factory=list)


def other_plans(graph: Graph, this: Plan, explained: _core.Explanation,
                time_limit: float) -> OtherPlans:
    """``this``: the plan that the page is about; ``time_limit``: seconds for all; 0: none are
    made."""
    if not time_limit:
        return OtherPlans()
    budget = this.budget_bytes or explained.keep_all_peak_bytes
    found = frontier(graph, _POINTS, time_limit=_FOR_FRONTIER * time_limit)
    curve = [Point(point.budget_bytes, point.overhead, point.least_overhead)
             for point in found.points]
    if not this.slower_bytes:
        bound = least_overhead(this, explained)
        curve = _with_plan(curve, Point(budget, explained.overhead, bound))
    more = _more_memory(graph, budget, explained, _FOR_MORE * time_limit)
    left = (1 - _FOR_FRONTIER - _FOR_MORE) * time_limit / len(PEERS)
    peers = [point for name in PEERS if (point := _peer(graph, budget, name, left)) is not None]
    return OtherPlans(curve, found.floor_bytes, peers, [more, *_less_memory(curve, budget)])


def least_overhead(of: Plan, explained: _core.Explanation) -> float | None:
    """No plan within its budget costs less than this above keep-all, where that is proved."""
    if of.lower_bound is None or not explained.keep_all_cost:
        return None
    return max(0.0, of.lower_bound / explained.keep_all_cost - 1)


def _with_plan(curve: list[Point], this: Point) -> list[Point]:
    """A plan for less memory is also one for more, and a bound for more memory is one for less."""
    points = sorted([*curve, this], key=lambda point: (-point.budget, point.overhead))
    bounds = list(itertools.accumulate((point.bound for point in points), _larger))
    costs = list(itertools.accumulate((point.overhead for point in reversed(points)), min))[::-1]
    return [dataclasses.replace(point, overhead=cost, bound=bound)
            for point, cost, bound in zip(points, costs, bounds)]


def _larger(one: float | None, other: float | None) -> float | None:
    return max((bound for bound in (one, other) if bound is not None), default=None)


def _more_memory(graph: Graph, budget: int, explained: _core.Explanation,
                 seconds: float) -> str:
    if explained.overhead <= _NOTHING:
        return "More memory saves no time: this plan takes as long as keep-all."
    extra = _core.worth_asking_for(budget)
    found = plan(graph, budget + extra, time_limit=seconds)
    saved = (0.0 if found.plan is None
             else (explained.cost - found.plan.cost) / explained.keep_all_cost)
    if saved <= _NOTHING:
        return (f"With {format_bytes(extra)} more no faster plan was found in {seconds:.1f} s of "
                f"planning.")
    return (f"With {format_bytes(extra)} more, a step costs {found.overhead:.2%} more than "
            f"keep-all, instead of {explained.overhead:.2%}.")


def _less_memory(curve: list[Point], budget: int) -> list[str]:
    below = [point for point in curve if point.budget < budget]
    if not below:
        return []
    smallest = below[-1]
    return [f"The smallest budget that was reached is {format_bytes(smallest.budget)}, where a "
            f"step costs {smallest.overhead:.2%} more than keep-all."]


def _peer(graph: Graph, budget: int, name: str, seconds: float) -> Point | None:
    """None for one that refuses the graph or finds nothing in time."""
    try:
        found = plan(graph, budget, name, time_limit=seconds)
    except InputError:  # a strategy may want a chain, or layers
        return None
    return _point(found, explained_cost=found.keep_all_cost, strategy=name)


def _point(found: Planned, explained_cost: float, strategy: str) -> Point | None:
    reached = found.plan or found.smallest_plan
    budget = found.budget_bytes if found.plan else found.smallest_budget
    if reached is None or budget is None or not explained_cost:
        return None
    return Point(budget, reached.cost / explained_cost - 1, strategy=strategy)


def titles() -> dict[str, str]:
    """By strategy, what it does."""
    return {strategy.name: strategy.summary for strategy in strategies()}
