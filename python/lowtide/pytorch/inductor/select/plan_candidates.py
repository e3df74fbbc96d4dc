"""Candidates from Lowtide's plans, corrected until the lowered graph just fits."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

from .... import Graph, Planned, keep_all, replay
from ..predict.predict_peak import Prediction, predict
from ..split.joint import Halves, Joint, KernelGraph
from .candidate import Candidate, PlannedSplit
from .evaluate import Evaluator

#: ``lowtide.plan`` with its settings: a plan of a graph within a budget.
Planner = Callable[[Graph, "int | str"], Planned]

#: Plans that are lowered, which takes most of the time, and plans that are made for each of them.
LOWERED, PLANS = 3, 5
#: Budgets that are tried where the one that is asked for is too small, before all is kept.
HALVINGS = 4
#: A part of the budget that may stay unused: another plan would gain little.
SLACK = 0.02


@dataclasses.dataclass(frozen=True)
class _Attempt:
    """A plan, the two graphs of it and what they are likely to take; ``is_smallest``: of all."""

    found: Planned
    halves: Halves
    likely: Prediction
    is_smallest: bool = False


def plans_within(evaluator: Evaluator, halves: Halves, budget_bytes: int, planner: Planner,
                 most: float, gain: float) -> Iterator[Candidate]:
    """Plans that are predicted to just fit, each corrected by what the one before took as lowered.

    The last is the smallest that the planner reaches where it has none of what is asked. A plan
    that is predicted to take ``most`` microseconds or more, or to be faster by less than ``gain``
    than one that fits, ends the search: something is as good.
    """
    kernel_graph = evaluator.joint.kernel_graph(halves)
    plans = _SplitPlans(evaluator.joint, kernel_graph, planner)
    asked = plans.kept + budget_bytes - evaluator.likely_bytes(predict(halves), near=True)
    looked_at: list[Planned] = []
    for _ in range(LOWERED):
        attempt = _best_attempt(evaluator, plans, asked, budget_bytes)
        if attempt.likely.microseconds >= most or attempt.found in looked_at:
            return
        looked_at.append(attempt.found)
        candidate = evaluator.planned(attempt.halves, attempt.likely,
                                      PlannedSplit(kernel_graph, attempt.found))
        yield candidate
        spare = budget_bytes - candidate.expected_bytes
        if 0 <= spare <= SLACK * budget_bytes or (attempt.is_smallest and spare < 0):
            return
        if spare >= 0:
            most = min(most, attempt.likely.microseconds - gain)
        asked = attempt.found.plan.peak_bytes + spare


class _SplitPlans:
    """Plans of one split; the smallest of them is remembered.

    ``kept``: bytes of the plan that keeps all.
    """

    def __init__(self, joint: Joint, kernel_graph: KernelGraph, planner: Planner):
        self._joint, self._kernel_graph, self._planner = joint, kernel_graph, planner
        self._graph = kernel_graph.kernels.graph
        self.kept = replay(self._graph, keep_all(self._graph)).peak_bytes
        self._refused = 0
        self._smallest: _Attempt | None = None

    def within(self, asked: int) -> _Attempt:
        """The smallest there is where the planner has none of so many bytes."""
        asked = max(1, asked)
        if asked > self._refused:
            found = self._planner(self._graph, asked)
            if found.plan is not None:
                return self._remembered(found)
            self._refused = asked
            if self._is_new(found):
                self._remembered(self._reached(found))
        return dataclasses.replace(self._smallest, is_smallest=True)

    def _is_new(self, refused: Planned) -> bool:
        """Whether the planner says that it reaches less than by now."""
        return (self._smallest is None or refused.smallest_budget is not None
                and refused.smallest_budget < self._smallest.found.plan.peak_bytes)

    def _remembered(self, found: Planned) -> _Attempt:
        halves = self._joint.split(self._kernel_graph, found.plan)
        attempt = _Attempt(found, halves, predict(halves))
        if self._smallest is None or (found.plan.peak_bytes
                                      < self._smallest.found.plan.peak_bytes):
            self._smallest = attempt
        return attempt

    def _reached(self, refused: Planned) -> Planned:
        """The plan of the smallest budget that was reached instead; where that is not known, of
        half way to keeping all, and so on."""
        asked = refused.smallest_budget or (refused.budget_bytes + self.kept) // 2
        for _ in range(HALVINGS):
            found = self._planner(self._graph, asked)
            if found.plan is not None:
                return found
            asked = (asked + self.kept) // 2
        return self._planner(self._graph, "100%")


def _best_attempt(evaluator: Evaluator, plans: _SplitPlans, asked: int,
                  budget_bytes: int) -> _Attempt:
    """A plan that is predicted to fit, and to leave little; the fastest that was made which fits,
    or the last. What leaves much and was asked for before is as good as it gets."""
    best, too_much, asked_before = None, math.inf, []
    for _ in range(PLANS):
        attempt = plans.within(asked)
        asked_before.append(asked)
        spare = budget_bytes - evaluator.likely_bytes(attempt.likely, near=True)
        if spare >= 0 and (best is None or attempt.likely.microseconds < best.likely.microseconds):
            best = attempt
        if 0 <= spare <= SLACK * budget_bytes or (attempt.is_smallest and spare < 0):
            break
        if spare < 0:
            too_much = min(too_much, asked)
        asked = attempt.found.plan.peak_bytes + spare
        if best is not None and (asked >= too_much or _is_among(asked, asked_before, budget_bytes)):
            break
    return best or attempt


def _is_among(asked: int, before: list[int], budget_bytes: int) -> bool:
    return any(abs(asked - other) <= SLACK / 2 * budget_bytes for other in before)
