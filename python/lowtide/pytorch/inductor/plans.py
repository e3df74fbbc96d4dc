"""Lowtide's plans of what one of PyTorch's splits runs, until the lowered graph just fits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

from ... import Graph, Planned, keep_all, replay
from .choice import Choice
from .foresight import Foreseen, foreseen
from .joint import Halves, Planning
from .judge import Judge

#: ``lowtide.plan`` with its settings: a plan of a graph within a budget.
Planner = Callable[[Graph, "int | str"], Planned]

#: Plans that are lowered, which takes most of the time, and plans that are made for each of them.
LOWERED, PLANS = 3, 5
#: Budgets that are tried where the one that is asked for is too small, before all is kept.
HALVINGS = 4
#: A part of the budget that may stay unused: another plan would gain little.
SLACK = 0.02


@dataclasses.dataclass(frozen=True)
class _Aimed:
    """A plan, the two graphs of it and what they are likely to take; ``is_smallest``: of all."""

    found: Planned
    halves: Halves
    likely: Foreseen
    is_smallest: bool


def plans_within(judge: Judge, halves: Halves, budget_bytes: int, planner: Planner,
                 most: float, gain: float) -> Iterator[Choice]:
    """Plans that are foreseen to just fit, each corrected by what the one before took as lowered.

    The last is the smallest that the planner reaches where it has none of what is asked. A plan
    that is foreseen to take ``most`` microseconds or more, or to be faster by less than ``gain``
    than one that fits, ends the search: something is as good.
    """
    planning = judge.joint.planning(halves)
    kept = replay(planning.kernels.graph, keep_all(planning.kernels.graph)).peak_bytes
    asked = kept + budget_bytes - judge.likely_bytes(foreseen(halves), near=True)
    for _ in range(LOWERED):
        aimed = _aimed(judge, planning, asked, kept, budget_bytes, planner)
        if aimed.likely.microseconds >= most:
            return
        choice = judge.planned(aimed.halves, aimed.likely, aimed.found)
        yield choice
        spare = budget_bytes - choice.expected_bytes
        if 0 <= spare <= SLACK * budget_bytes or (aimed.is_smallest and spare < 0):
            return
        if spare >= 0:
            most = min(most, aimed.likely.microseconds - gain)
        asked = aimed.found.plan.peak_bytes + spare


def _aimed(judge: Judge, planning: Planning, asked: int, kept: int, budget_bytes: int,
           planner: Planner) -> _Aimed:
    """A plan that is foreseen to fit, and to leave little; the fastest that was made which fits,
    or the last. ``kept``: what it takes to keep all."""
    best, too_much = None, math.inf
    for _ in range(PLANS):
        found = planner(planning.kernels.graph, max(1, asked))
        is_smallest = found.plan is None
        if is_smallest:
            found = _smallest(planning.kernels.graph, found, kept, planner)
        halves = judge.joint.split(planning, found.plan)
        likely = foreseen(halves)
        aimed = _Aimed(found, halves, likely, is_smallest)
        spare = budget_bytes - judge.likely_bytes(likely, near=True)
        if spare >= 0 and (best is None or likely.microseconds < best.likely.microseconds):
            best = aimed
        if 0 <= spare <= SLACK * budget_bytes or (is_smallest and spare < 0):
            break
        if spare < 0:
            too_much = min(too_much, asked)
        asked = found.plan.peak_bytes + spare
        if best is not None and asked >= too_much:
            break
    return best or aimed


def _smallest(graph: Graph, refused: Planned, kept: int, planner: Planner) -> Planned:
    """The plan of the smallest budget that was reached instead; where that is not known, of half
    way to keeping all, and so on."""
    asked = refused.smallest_budget or (refused.budget_bytes + kept) // 2
    for _ in range(HALVINGS):
        found = planner(graph, asked)
        if found.plan is not None:
            return found
        asked = (asked + kept) // 2
    return planner(graph, "100%")
