"""A captured graph with measured costs, and the search for a plan of it."""

from __future__ import annotations

import collections
import dataclasses

from ... import (
    Graph,
    InfeasibleError,
    Plan,
    Planned,
    _core,
    _runtime,
    keep_all,
    plan,
    replay,
    structural_floor_bytes,
)
from ...interruptible import interruptible
from ..budget.settings import Settings
from ..shards.collectives import IN_FLIGHT
from .needed_bytes import needed_bytes
from .plan_store import PlanStore
from .slower import Slower

#: The strategy by which values move and no op runs again.
_ONLY_MOVES = "offload"

#: Measuring that takes longer is said before.
_LONG_SECONDS = 10.0

#: Of addresses in a block, in bytes.
_ALIGNMENT = 64

#: More than any machine has: every value is kept.
UNLIMITED_BYTES = 1 << 52


@dataclasses.dataclass(frozen=True)
class PricedGraph:
    """A graph with measured times and workspaces, and what bounds its plans, in bytes."""

    graph: Graph
    keep_all_peak_bytes: int
    keep_all_cost: float
    floor_bytes: int
    #: What no plan counts and what is gone when the passes are over: results in the caller's
    #: memory, states of the generator.
    uncounted_bytes: int
    parameter_bytes: int
    input_bytes: int  # of residents that each call has its own of
    slower: Slower | None = None  # where values may move
    parameters_move: bool = False

    @property
    def resident_bytes(self) -> int:
        return self.graph.resident_bytes


@dataclasses.dataclass(frozen=True)
class Refusal:
    """That no plan was found. ``smallest_plan``: the plan of the fewest bytes that was, where
    there is one. ``why_not_less``: what any plan must have room for."""

    message: str
    why_not_less: str = ""
    smallest_plan: Plan | None = None


class NoPlan(InfeasibleError):
    """An error for a refusal. It holds no more than that: whoever keeps an error keeps all frames
    that it went through, and the tensors in them. Users see the name that they can catch."""

    __module__, __qualname__ = "lowtide", InfeasibleError.__qualname__

    def __init__(self, refusal: Refusal, smallest_budget: int | None = None):
        super().__init__(refusal.message)
        self.refusal = refusal
        self.smallest_budget = smallest_budget


def measure(graph: Graph, device: str, settings: Settings,
            microseconds: float | None = None) -> Graph:
    """Measures what the profile of the device lacks. Ctrl-C keeps what was measured. Where several
    ranks train, the first one measures for all: a rank with other costs would have another plan.
    ``microseconds``: how long all of it takes at least, where that is known."""
    if settings.layout is None:
        return measure_here(graph, device, settings, microseconds)
    text = settings.group.of_first(
        lambda: measure_here(graph, device, settings, microseconds).format(), "measure a graph",
        graph.format())
    return Graph.parse(text, f"the graph of {graph.name}")


def measure_here(graph: Graph, device: str, settings: Settings,
                 microseconds: float | None = None) -> Graph:
    """As ``measure``, for this rank alone."""
    if settings.layout is None:
        return _profiled(graph, device, settings, microseconds)
    with IN_FLIGHT.unconnected():
        return settings.layout.costs.added_to(_profiled(graph, device, settings, microseconds))


def _profiled(graph: Graph, device: str, settings: Settings,
              microseconds: float | None) -> Graph:
    what = f"measuring the ops of {graph.name}{_how_long(microseconds)}"
    settings.say(what)
    with settings.progress(what):
        return interruptible(
            lambda: _runtime.profiled(graph, report=settings.report, device=device), _runtime)


def _how_long(microseconds: float | None) -> str:
    """For those who would rather have a smaller largest size than wait."""
    seconds = 0.0 if microseconds is None else microseconds * 1e-6
    if seconds < _LONG_SECONDS:
        return ""
    text = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    return (f", {text} or more where they were not measured before (less with a smaller largest "
            f"size)")


def keep_all_bytes(measured: Graph) -> int:
    """What a step takes when all values are kept, residents included."""
    kept_all = replay(measured, keep_all(measured))
    # What lies in a block lies at multiples of the alignment.
    return kept_all.peak_bytes + measured.alignment * (len(kept_all.live_at_peak) + 1)


def handed_out_bytes(graph: Graph) -> int:
    """Of what is there when a step of the graph is over: its residents, and the gradients in its
    block."""
    tensors = graph.tensors
    storages = {output if tensors[output].alias_of is None else tensors[output].alias_of
                for output in graph.outputs}
    return graph.resident_bytes + sum(
        -(-tensors[storage].bytes // _ALIGNMENT) * _ALIGNMENT
        for storage in storages if tensors[storage].kind != "resident")


def price(measured: Graph, device: str, replaces_results: bool,
          slower: Slower | None = None, parameters_move: bool = False) -> PricedGraph:
    """What bounds the plans of a graph that was measured on the device.

    ``replaces_results``: a section of its block is for results that the caller drops. No other
    value may lie across its border, so that the addresses may take more than the values.
    ``slower``: where values may move, and parameters where ``parameters_move``.
    """
    if parameters_move:  # they are back when the step is over
        floor = max(handed_out_bytes(measured), _core.floor_with_residents_away(measured))
    else:
        floor = structural_floor_bytes(measured)
    kept_all = keep_all_bytes(measured)
    if replaces_results:
        kept_all = max(kept_all, plan_keeping_all(measured).arena_bytes)
    uncounted = (_runtime.foreign_bytes(measured)
                 + _runtime.generator_state_bytes(measured, device))
    by_role = collections.Counter()
    for tensor in measured.tensors:
        by_role[tensor.role] += tensor.bytes if tensor.kind == "resident" else 0
    return PricedGraph(
        measured, kept_all, replay(measured, keep_all(measured)).cost,
        floor, uncounted, by_role["parameter"], by_role["input"], slower, parameters_move)


def keep_all_step_bytes(priced_graph: PricedGraph, after_bytes: int) -> int:
    """What plans count when all values are kept, and so many bytes are wanted beside the gradients
    when the passes are over."""
    kept_all = priced_graph.keep_all_peak_bytes
    if not after_bytes:
        return kept_all
    graph = priced_graph.graph.with_after_bytes(after_bytes)
    whole = max(kept_all, handed_out_bytes(graph) + after_bytes)
    # Gradients lie apart from what is given back, which may take more addresses.
    plan = _core.transfer(graph, graph, keep_all(graph), whole)
    fits = plan is not None and needed_bytes(graph, plan) <= whole
    return whole if fits else kept_all + after_bytes


def plan_within(priced_graph: PricedGraph, budget_bytes: int | None, settings: Settings,
            store: PlanStore | None) -> Plan:
    """The cheapest plan within so many bytes for residents, values and workspaces, of what a search
    finds and of what is in the store. Raises NoPlan.
    """
    budget = _in_bytes(budget_bytes)
    settings.say(f"planning {priced_graph.graph.name}, at most {settings.time_limit:g} s")
    with settings.progress(_what_is_planned(priced_graph, budget_bytes, settings)) as progress:
        answer = _search(priced_graph, budget, settings)
        progress.outcome = _outcome(answer)
    found = answer.plan or answer.smallest_plan
    if store is not None:
        if found is not None:
            store.keep(found)
        store.note_search(budget, settings.time_limit if answer.repeatable else 0.0)
        stored = store.cheapest(budget)
        if stored is not None and (answer.plan is None or stored.cost < answer.plan.cost):
            return stored
    if answer.plan is None:
        raise NoPlan(Refusal(answer.message, answer.why_not_less, answer.smallest_plan),
                     answer.smallest_budget)
    if answer.overhead is not None:
        settings.say(f"planned: {_core.format_bytes(answer.plan.arena_bytes)}, "
                     f"{answer.overhead:+.1%} time")
    if not answer.repeatable:
        settings.say("the clock cut the planning short, as on a busy machine: another run may find "
                     "another plan, and a longer time_limit a better one")
    return answer.plan


def _search(priced_graph: PricedGraph, budget_bytes: int, settings: Settings) -> Planned:
    graph, slower = priced_graph.graph, priced_graph.slower
    if slower is None:
        return plan(graph, budget_bytes, settings.unmoved_strategy,
                    options=settings.planning_options, time_limit=settings.time_limit)
    may_rerun = settings.strategy != _ONLY_MOVES
    if may_rerun and budget_bytes < priced_graph.floor_bytes:  # only the smallest plan is of use
        return plan(graph, budget_bytes, time_limit=settings.time_limit)
    first, *others = slower.places
    arguments = (graph, budget_bytes, settings.strategy, first, others[0] if others else None,
                 settings.time_limit, priced_graph.parameters_move)
    return interruptible(lambda: _core.plan_moving(*arguments), _core)


def store_for(priced_graph: PricedGraph, settings: Settings) -> PlanStore | None:
    """Where plans of the graph are kept; None where the settings want no cache."""
    if not settings.keeps_plans:
        return None
    slower = priced_graph.slower
    strategy = settings.unmoved_strategy if slower is None else settings.strategy
    return PlanStore(priced_graph.graph, strategy, settings.planning_options,
                     slower and (slower.places, priced_graph.parameters_move))


def stored_plan(budget_bytes: int | None, store: PlanStore | None,
           settings: Settings) -> tuple[Plan | None, float | None]:
    """The cheapest plan of earlier searches that fits, and the time limit of the longest of them
    for this very budget (``PlanStore.searched_seconds``)."""
    if store is None or settings.cache == "refresh":
        return None, None
    budget = _in_bytes(budget_bytes)
    return store.cheapest(budget), store.searched_seconds(budget)


def plan_keeping_all(graph: Graph) -> Plan:
    """The plan that runs each op once, with addresses."""
    return plan(graph, UNLIMITED_BYTES, "keep-all").plan


def transfer(priced_graph: PricedGraph, other: PricedGraph, plan: Plan,
                budget_bytes: int) -> Plan | None:
    """The decisions of another graph's plan for this one; None when the ops differ or these bytes
    are too few."""
    return _core.transfer(priced_graph.graph, other.graph, plan, budget_bytes)


def _what_is_planned(priced_graph: PricedGraph, budget_bytes: int | None,
                     settings: Settings) -> str:
    limit = "" if budget_bytes is None else f" within {_core.format_bytes(max(1, budget_bytes))}"
    return (f"planning {priced_graph.graph.name} ({len(priced_graph.graph.ops)} ops){limit}, at "
            f"most {settings.time_limit:g} s")


def _outcome(answer: Planned) -> str:
    """How much longer the plan takes than keeping everything, and any plan at least."""
    if answer.plan is None or answer.overhead is None:
        return "no plan"
    bound = answer.plan.lower_bound
    if bound is None or answer.outcome == "optimal":
        proof = " (optimal)" if answer.outcome == "optimal" else ""
        return f"{answer.overhead:+.1%} time{proof}"
    return f"{answer.overhead:+.1%} time (any plan {bound / answer.keep_all_cost - 1:+.1%} or more)"


def _in_bytes(budget_bytes: int | None) -> int:
    """As the planner wants it: where others left less than nothing, it says what would do."""
    return UNLIMITED_BYTES if budget_bytes is None else max(1, budget_bytes)
