"""Which values of a graph are held in fewer bits: those by which its plan takes the least time.

A plan makes each value in one way, so each choice is a graph of its own, which is planned. First
comes the graph without any; only where that has no plan, or one that costs time, come others: with
all stashes, with those that this plan really holds, and with the cheapest ones that save as much as
is lacking. What loses nothing is tried before what changes the gradients.
"""

from __future__ import annotations

import dataclasses
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import torch
from torch import fx

from ... import Plan, keep_all, replay
from ..budget.settings import Settings
from ..capture import Captured
from ..stash import Stash, Stashes
from .region import Region

#: Of the time limit, for each graph with stashes: three at most with those that lose nothing, and
#: three with all. The graph without has the whole limit, so that no answer is worse than its.
_SHARE_WITH = 0.1

#: Costs that differ by less are the same.
_SAME_COST = 1 + 1e-9

#: It stands for an op that the step has anyway, so that its time is no cost of a stash.
_IN_PLACE_OF = "lowtide::pass_by_bits"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What planning a region came to. ``share``: bytes that it may take, None where there is no
    limit or nothing fits; ``cost``: of the plan and of what it needs beside it."""

    region: Region
    share: int | None = None
    plan: Plan | None = None
    cost: float = float("inf")

    @property
    def costs_nothing(self) -> bool:
        return self.cost <= self.region.priced.keep_all_cost * _SAME_COST


class MakeRegion(Protocol):
    def __call__(self, captured: Captured, settings: Settings, stashes: Sequence[Stash] = (),
                 plain: Region | None = None) -> Region: ...


def cheapest_region(captured: Captured, stashes: Stashes[Captured], settings: Settings,
                    make: MakeRegion, attempt: Callable[[Region], Attempt],
                    soon: bool) -> Region:
    """The region of ``captured``, or of the same step with some stashes where its plan takes less
    time; of those without a plan, the one that needs the fewest bytes. ``make``: a region;
    ``attempt``: plans it; ``soon``: a run waits, so that any plan of the step as it is will do."""
    if not stashes.found or settings.budget.is_unlimited:
        return make(captured, settings)
    plain = attempt(make(captured, settings))
    if soon and plain.plan is not None:
        return plain.region
    sets = [stashes.exact] + [stashes.found] * (len(stashes.exact) < len(stashes.found))
    briefly = dataclasses.replace(settings, time_limit=_SHARE_WITH * settings.time_limit)

    def tried(chosen: Sequence[Stash]) -> Attempt:
        return attempt(make(stashes.captured_with(chosen), briefly, chosen, plain.region))

    attempts = [plain]
    for allowed in filter(None, sets):
        if min(attempts, key=_cost).costs_nothing:
            break
        attempts += _with_stashes(allowed, plain, tried)
    best = min(attempts, key=_cost)
    if best.plan is None:
        best = min(attempts, key=lambda attempt: attempt.region.least_bytes)
    best.region.search_by(settings)
    return best.region


def _cost(attempt: Attempt) -> float:
    return attempt.cost


def _with_stashes(allowed: Sequence[Stash], plain: Attempt,
                  tried: Callable[[Sequence[Stash]], Attempt]) -> Iterator[Attempt]:
    whole = tried(allowed)
    yield whole
    if whole.plan is None:
        return
    once = _made_once(whole.region, whole.plan)
    held = [stash for stash in allowed if stash.name in once]
    if 0 < len(held) < len(allowed):
        yield tried(held)
    if whole.share is not None:
        lacking = plain.region.priced.keep_all_peak_bytes - whole.share
        alive = _alive_at_peak(plain.region)
        few = _cheapest_for(lacking, [stash for stash in held if _op_of(stash.value) in alive],
                            _costs(whole.region))
        if 0 < len(few) < len(held):
            yield tried(few)


def _made_once(region: Region, plan: Plan) -> set[str]:
    """Stashes that the plan makes in the forward pass and holds. The others are of no use: what
    they are made of is there again in the backward pass."""
    runs = Counter(action[1] for action in plan.actions if action[0] == "run")
    boundary = region.captured.boundary
    again = {_stash_of(region, op) for op, count in runs.items() if op < boundary and count > 1}
    return {name for op in runs if (name := _stash_of(region, op))} - again


def _alive_at_peak(region: Region) -> set[tuple[fx.Node | None, int]]:
    """What is there at the peak of a step that keeps all values, by its op and place among the
    results of that."""
    graph = region.priced.graph
    alive = set(replay(graph, keep_all(graph)).live_at_peak)
    return {(region.captured.nodes[number], place) for number, op in enumerate(graph.ops)
            for place, index in enumerate(op.outputs) if index in alive}


def _op_of(value: fx.Node) -> tuple[fx.Node, int]:
    """The op that makes a value, and the value's place among its tensors."""
    if value.target is not operator.getitem:
        return value, 0
    op, position = value.args
    return op, sum(isinstance(result, torch.Tensor) for result in op.meta["val"][:position])


def _costs(region: Region) -> dict[str, float]:
    """By stash: of what is added to the step for it."""
    costs: defaultdict[str, float] = defaultdict(float)
    for number, op in enumerate(region.priced.graph.ops):
        if op.type != _IN_PLACE_OF:
            costs[_stash_of(region, number)] += op.cost
    return costs


def _stash_of(region: Region, op: int) -> str:
    """The name of the stash that an op was added for, "" of others."""
    node = region.captured.nodes[op]
    return "" if node is None else node.meta.get("stash", "")


def _cheapest_for(lacking_bytes: int, held: Sequence[Stash],
                  costs: dict[str, float]) -> list[Stash]:
    """The first, of the least time for a byte, that save so many bytes; those without loss go
    before others."""
    def price(stash: Stash) -> tuple[bool, float]:
        return not stash.is_exact, costs[stash.name] / (stash.whole_bytes - stash.held_bytes)

    chosen, saved = [], 0
    for stash in sorted(held, key=price):
        if saved >= lacking_bytes:
            break
        chosen.append(stash)
        saved += stash.whole_bytes - stash.held_bytes
    return chosen
