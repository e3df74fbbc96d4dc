"""What a planned graph holds, moves and runs again, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ... import Plan, _core
from ..budget.may_move import MayMove
from ..budget.settings import Settings
from ..stash import describe
from .bound import describe_bound
from .by_module import by_module
from .planned_graph import PlannedGraph


def graph_report(planned: PlannedGraph, plan: Plan, settings: Settings, may_move: MayMove,
                 most: int) -> Iterator[str]:
    """Paragraphs, of which some may be empty; lists have at most so many rows. ``may_move``: as of
    ``describe_bound``."""
    region = planned.region
    graph = region.priced.graph
    yield (f"{region.name}: {len(graph.ops)} ops\n"
           + _core.explain(graph, plan, most).rstrip("\n"))
    yield describe_bound(planned, plan, settings, may_move)
    kept_all = (region.plain or region).priced.keep_all_cost
    yield describe(region.stashes, plan.cost / kept_all - 1 if kept_all else 0.0)
    if region.gradient_error is not None:
        yield str(region.gradient_error)
    yield by_module(graph, region.captured.nodes, plan, most)
