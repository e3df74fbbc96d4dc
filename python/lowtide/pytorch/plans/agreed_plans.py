"""One plan for all ranks: the first one makes it."""

from __future__ import annotations

from collections.abc import Callable

from ... import Graph, Plan
from ..shards.group import Group
from ..shards.overlap import overlapped
from .planning import NoPlan, Refusal


def plan_of_ranks(graph: Graph, group: Group | None, budget_bytes: int | None,
                  make: Callable[[int | None], Plan]) -> Plan:
    """What ``make`` returns for so many bytes, or raises, on the first rank of the group; with
    collectives that run while other ops do. Without a group, what it returns here."""
    if group is None:
        return make(budget_bytes)

    def made() -> tuple[str | None, tuple | None]:
        try:
            return overlapped(graph, make(budget_bytes)).format(), None
        except NoPlan as error:
            refusal = error.refusal
            smallest = refusal.smallest_plan
            return None, (refusal.message, refusal.why_not_less,
                          smallest and overlapped(graph, smallest).format(), error.smallest_budget)

    text, refused = group.of_first(made, "plan a graph", f"{graph.name} within {budget_bytes}")
    if text is not None:
        return Plan.parse(text)
    message, why, smallest, budget = refused
    raise NoPlan(Refusal(message, why, smallest and Plan.parse(smallest)), budget)
