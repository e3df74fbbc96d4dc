"""A captured graph with its costs on this machine, and the plan for it."""

from __future__ import annotations

import collections
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
    keep_all_cost: float
    floor_bytes: int
    beside_bytes: int  # what no plan counts: results in the caller's memory, generator states
    parameter_bytes: int
    input_bytes: int  # of residents that each call has its own of

    @property
    def resident_bytes(self) -> int:
        return self.graph.resident_bytes


def priced(graph: Graph, settings: Settings) -> Priced:
    """Measures what the profile of this device lacks. Ctrl-C keeps what was measured."""
    settings.say(f"measuring the ops of {graph.name}")
    measured = interruptible(lambda: _runtime.profiled(graph, report=settings.report), _runtime)
    kept_all = replay(measured, keep_all(measured))
    # What lies in a block lies at multiples of 64.
    peak = kept_all.peak_bytes + 64 * (len(kept_all.live_at_peak) + 1)
    beside = _runtime.foreign_bytes(measured) + _runtime.generator_state_bytes(measured)
    by_role = collections.Counter()
    for tensor in measured.tensors:
        by_role[tensor.role] += tensor.bytes if tensor.kind == "resident" else 0
    return Priced(measured, peak, kept_all.cost, structural_floor_bytes(measured),
                  beside, by_role["parameter"], by_role["input"])


def planned(priced_graph: Priced, budget_bytes: int | None, settings: Settings) -> Plan:
    """A plan within so many bytes for residents, values and workspaces, or from the cache.

    Raises InfeasibleError with the smallest budget that was reached.
    """
    found = kept(priced_graph, budget_bytes, settings)
    if found is None:
        found = _planned_now(priced_graph.graph, _in_bytes(budget_bytes), settings)
        if settings.cache:
            plan_cache.keep(_key(priced_graph, budget_bytes, settings), found)
    return found


def no_plan(message: str, smallest_budget: int | None) -> InfeasibleError:
    """An error that carries the smallest budget, in bytes, that is known to do."""
    error = InfeasibleError(message)
    error.smallest_budget = smallest_budget
    return error


def kept(priced_graph: Priced, budget_bytes: int | None, settings: Settings) -> Plan | None:
    """The plan in the cache, if there is one."""
    if not settings.cache:
        return None
    return plan_cache.find(_key(priced_graph, budget_bytes, settings), priced_graph.graph,
                           _in_bytes(budget_bytes))


def least_bytes(priced_graph: Priced, settings: Settings) -> int:
    """About the fewest bytes for residents, values and workspaces that a plan is found for."""
    answer = plan(priced_graph.graph, priced_graph.resident_bytes + 1, settings.strategy,
                  options=settings.planning_options, time_limit=settings.time_limit)
    if answer.plan is not None:
        return answer.plan.arena_bytes
    return answer.smallest_budget or priced_graph.keep_all_peak_bytes


def transferred(priced_graph: Priced, other: Priced, plan: Plan, budget_bytes: int) -> Plan | None:
    """The decisions of another graph's plan for this one; None when the ops differ or these bytes
    are too few."""
    return _core.transferred(priced_graph.graph, other.graph, plan, budget_bytes)


def _in_bytes(budget_bytes: int | None) -> int:
    """As the planner wants it: where others left less than nothing, it says what would do."""
    return _UNLIMITED_BYTES if budget_bytes is None else max(1, budget_bytes)


def _key(priced_graph: Priced, budget_bytes: int | None, settings: Settings) -> str:
    return plan_cache.cache_key(priced_graph.graph, _in_bytes(budget_bytes), settings.strategy,
                                settings.planning_options, settings.time_limit)


def _planned_now(graph: Graph, budget: int, settings: Settings) -> Plan:
    settings.say(f"planning {graph.name}, at most {settings.time_limit:g} s")
    answer = plan(graph, budget, settings.strategy, options=settings.planning_options,
                  time_limit=settings.time_limit)
    if answer.plan is None:
        raise no_plan(answer.message, answer.smallest_budget)
    if answer.overhead is not None:
        settings.say(f"planned: {_core.format_bytes(answer.plan.arena_bytes)}, "
                     f"{answer.overhead:+.1%} time")
    if not answer.repeatable:
        settings.say("the clock cut the planning short, as on a busy machine: another run may find "
                     "another plan, and a longer time_limit a better one")
    return answer.plan
