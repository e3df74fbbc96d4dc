"""One plan for all ranks: the first one makes it."""

from __future__ import annotations

from collections.abc import Callable

from ... import Graph, Plan
from ..budget.settings import Settings
from ..shards.overlap import overlapped
from .planning import NoPlan, Refusal


def plan_of_ranks(graph: Graph, settings: Settings, budget_bytes: int | None,
                  make: Callable[[int | None], Plan]) -> Plan:
    """What ``make`` returns for so many bytes, or raises, on the first rank of those that the
    settings have; with collectives that run while other ops do. Without ranks, what it returns
    here."""
    group, layout = settings.group, settings.layout
    if group is None or layout is None:
        return make(budget_bytes)

    def as_text(plan: Plan) -> str:
        return overlapped(graph, plan, layout.costs).format()

    def made() -> tuple[str | None, tuple | None]:
        try:
            return as_text(make(budget_bytes)), None
        except NoPlan as error:
            refusal = error.refusal
            smallest = refusal.smallest_plan
            return None, (refusal.message, refusal.why_not_less, smallest and as_text(smallest),
                          error.smallest_budget)

    text, refused = group.of_first(made, "plan a graph", f"{graph.name} within {budget_bytes}")
    if text is not None:
        return Plan.parse(text)
    message, why, smallest, budget = refused
    raise NoPlan(Refusal(message, why, smallest and Plan.parse(smallest)), budget)
