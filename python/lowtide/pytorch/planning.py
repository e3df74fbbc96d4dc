"""A captured graph with its costs on this machine, and the plan for it."""

from __future__ import annotations

import dataclasses

from .. import Graph, InfeasibleError, Plan, _core, _runtime, keep_all, plan, replay
from .. import structural_floor_bytes
from ..interruptible import interruptible
from . import plan_cache
from .settings import Settings

#: More than any machine has: every value is kept.
_UNLIMITED_BYTES = 1 << 52


@dataclasses.dataclass(frozen=True)
class Priced:
    """A graph with measured times and workspaces, and what bounds its plans, in bytes."""

    graph: Graph
    keep_all_peak_bytes: int
    floor_bytes: int

    @property
    def resident_bytes(self) -> int:
        return self.graph.resident_bytes


def priced(graph: Graph, settings: Settings) -> Priced:
    """Measures what the profile of this device lacks. Ctrl-C keeps what was measured."""
    settings.say(f"measuring the ops of {graph.name}")
    measured = interruptible(lambda: _runtime.profiled(graph, report=settings.report), _runtime)
    peak = replay(measured, keep_all(measured)).peak_bytes
    return Priced(measured, peak, structural_floor_bytes(measured))


def planned(priced_graph: Priced, budget_bytes: int | None, settings: Settings) -> Plan:
    """A plan within so many bytes for residents, values and workspaces, or from the cache.

    Raises InfeasibleError with the smallest budget that was reached.
    """
    budget = _UNLIMITED_BYTES if budget_bytes is None else budget_bytes
    graph = priced_graph.graph
    key = plan_cache.cache_key(graph, budget, settings.strategy, settings.options,
                               settings.time_limit)
    found = plan_cache.find(key, graph, budget) if settings.cache else None
    if found is None:
        found = _planned_now(graph, budget, settings)
        if settings.cache:
            plan_cache.keep(key, found)
    return found


def _planned_now(graph: Graph, budget: int, settings: Settings) -> Plan:
    settings.say(f"planning {graph.name}, at most {settings.time_limit:g} s")
    answer = plan(graph, budget, settings.strategy, options=settings.options,
                  time_limit=settings.time_limit)
    if answer.plan is None:
        raise InfeasibleError(answer.message)
    if answer.overhead is not None:
        settings.say(f"planned: {_core.format_bytes(answer.plan.arena_bytes)}, "
                     f"{answer.overhead:+.1%} time")
    return answer.plan
