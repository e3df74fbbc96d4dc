"""What other budgets and other strategies would give: plans that are made for the page."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import NamedTuple

from .. import Graph, InputError, Plan, Planned, _core, format_bytes, frontier, plan, strategies

_POINTS = 7
#: By the model of a bound, as the plan format has it, the fewest plans first.
_ORDERS = {"fixed-order": "that keeps the order of the ops", "any-order": "in any order"}
#: Strategies as other programs have them, which take a moment each.
PEERS = ("chen-sqrt", "selective", "megatron", "min-cut", "dtr")
#: Of the time for all: a curve, a larger budget, and the rest for peers.
_FOR_FRONTIER, _FOR_MORE = 0.6, 0.2
#: A share of the time of a step below which a saving is none.
_NOTHING = 5e-5


@dataclasses.dataclass(frozen=True)
class Point:
    """A plan within a budget. ``overhead`` and ``bound``: of its cost, and of the least cost that
    is not excluded, as shares above keep-all; ``model``: which plans the bound is of; ``strategy``:
    which made the plan."""

    budget: int
    overhead: float
    bound: float | None
    model: str
    strategy: str


class KeptAll(NamedTuple):
    """A graph, and what its step takes when every value is kept."""

    graph: Graph
    cost: float
    peak_bytes: int


@dataclasses.dataclass(frozen=True)
class OtherPlans:
    """``curve``: by falling budget, the last one of which is the smallest that was reached;
    ``floor_bytes``: no plan needs less; ``peers``: at the budget of the plan, or at the smallest
    that they reach; ``advice``: sentences."""

    curve: list[Point] = dataclasses.field(default_factory=list)
    floor_bytes: int = 0
    peers: list[Point] = dataclasses.field(default_factory=list)
    advice: list[str] = dataclasses.field(default_factory=list)


def other_plans(whole: KeptAll, this: Point, moves: bool, time_limit: float) -> OtherPlans:
    """``this``: the plan that the page is about, and whether it moves values; ``time_limit``:
    seconds for all; 0: none are made."""
    if not time_limit:
        return OtherPlans()
    found = frontier(whole.graph, _POINTS, time_limit=_FOR_FRONTIER * time_limit)
    points, advice = [_point(point) for point in found.points], []
    if not moves:  # of plans that move values, these say nothing
        more, larger = _more_memory(whole.graph, this, _FOR_MORE * time_limit)
        points += [this, larger]
        advice.append(more)
    curve = _monotone(list(filter(None, points)))
    left = (1 - _FOR_FRONTIER - _FOR_MORE) * time_limit / len(PEERS)
    peers = [_peer(whole.graph, this.budget, name, left) for name in PEERS]
    return OtherPlans(curve, found.floor_bytes, list(filter(None, peers)),
                      [*advice, *_less_memory(curve, this.budget)])


def least_overhead(of: Plan, whole: KeptAll) -> float | None:
    """No plan within its budget costs less than this above keep-all, where that is proved."""
    if of.lower_bound is None or not whole.cost:
        return None
    return max(0.0, of.lower_bound / whole.cost - 1)


def proved_for(points: Iterable[Point]) -> str:
    """The plans that all their bounds are of, in words: a bound of more plans is one of fewer."""
    models = {point.model for point in points if point.bound is not None}
    others = sorted(models - set(_ORDERS))
    if others:
        return f"by the rules of {' and '.join(others)}"
    return next((words for model, words in _ORDERS.items() if model in models), "")


def _monotone(points: list[Point]) -> list[Point]:
    """By falling budget. A plan for less memory is also one for more, and a bound for more memory
    is one for less."""
    points = sorted(points, key=lambda point: -point.budget)
    bounds = list(itertools.accumulate((point.bound for point in points), _larger))
    costs = list(itertools.accumulate((point.overhead for point in reversed(points)), min))[::-1]
    return [dataclasses.replace(point, overhead=cost, bound=bound)
            for point, cost, bound in zip(points, costs, bounds)]


def _larger(one: float | None, other: float | None) -> float | None:
    return max((bound for bound in (one, other) if bound is not None), default=None)


def _more_memory(graph: Graph, this: Point, seconds: float) -> tuple[str, Point | None]:
    """What more of it would save, and the plan that says so."""
    if this.overhead <= _NOTHING:
        return "More memory saves no time: this plan takes as long as keep-all.", None
    extra = _core.worth_asking_for(this.budget)
    planned = plan(graph, this.budget + extra, time_limit=seconds)
    found = _point(planned) if planned.plan else None
    if found is None or this.overhead - found.overhead <= _NOTHING:
        return (f"With {format_bytes(extra)} more no faster plan was found in {seconds:.1f} s of "
                f"planning."), found
    return (f"With {format_bytes(extra)} more, a step costs {found.overhead:.2%} more than "
            f"keep-all, instead of {this.overhead:.2%}."), found


def _less_memory(curve: list[Point], budget: int) -> list[str]:
    below = [point for point in curve if point.budget < budget]
    if not below:
        return []
    smallest = below[-1]
    return [f"The smallest budget that was reached without moves is "
            f"{format_bytes(smallest.budget)}, where a step costs {smallest.overhead:.2%} more "
            f"than keep-all."]


def _peer(graph: Graph, budget: int, name: str, seconds: float) -> Point | None:
    """None for one that refuses the graph or finds nothing in time."""
    try:
        return _point(plan(graph, budget, name, time_limit=seconds))
    except InputError:  # a strategy may want a chain, or layers
        return None


def _point(found: Planned) -> Point | None:
    """Of the plan within the budget, or of the one that needs the least."""
    reached = found.plan or found.smallest_plan
    budget = found.budget_bytes if found.plan else found.smallest_budget
    if reached is None or budget is None or not found.keep_all_cost:
        return None
    bound = found.least_overhead if found.plan else None
    return Point(budget, reached.cost / found.keep_all_cost - 1, bound, reached.model,
                 reached.strategy)


def titles() -> dict[str, str]:
    """By strategy, what it does."""
    return {strategy.name: strategy.summary for strategy in strategies()}
