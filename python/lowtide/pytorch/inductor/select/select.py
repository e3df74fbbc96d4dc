"""Selects the split of a joint graph that Inductor compiles within a budget.

Candidates are PyTorch's own split, which is what Inductor alone would run; PyTorch's splits with an
activation memory budget, down to the first that fits; and Lowtide's plans, asked for less or more
until the lowered graph just fits. Of those that fit as lowered the fastest is taken. No code is
generated or compiled meanwhile.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from ...budget.budget import Budget
from ..lower.lowering import lowered
from ..predict.predict_peak import predict
from ..split.joint import Joint
from .candidate import Candidate, fastest
from .evaluate import Evaluator, Lowering
from .plan_candidates import Planner, plans_within
from .torch_candidates import TorchCandidates

#: An estimated overhead, as a part of the time, below which another split would gain little.
LITTLE = 0.01


def select(joint: Joint, budget: Budget, planner: Planner | None,
           other_bytes: int = 0, lowering: Lowering = lowered,
           after_bytes: int = 0) -> Candidate:
    """The fastest split within the budget; the smallest that was found where none is.

    ``budget``: where it is a share, of what a step takes with PyTorch's own split. ``planner``:
    None for PyTorch's splits alone. ``other_bytes`` of the budget are taken by what the graph does
    not know. ``after_bytes`` more are taken when the passes are over, beside their results.
    Ctrl-C ends the search with what was found by then, and raises KeyboardInterrupt where that
    does not fit.
    """
    evaluator = Evaluator(joint, lowering, other_bytes, after_bytes)
    budget_bytes = budget.resolve(evaluator.own.step_bytes)
    candidate = evaluator.own
    if budget_bytes is not None and candidate.expected_bytes > budget_bytes:
        candidate = _best(evaluator, budget_bytes, planner)
    return dataclasses.replace(candidate, budget_bytes=budget_bytes)


def _best(evaluator, budget_bytes, planner) -> Candidate:
    found = [evaluator.own]
    try:
        for candidate in _candidates(evaluator, budget_bytes, planner):
            found.append(candidate)
    except KeyboardInterrupt:
        if fastest(found, budget_bytes) is None:
            raise
    best = fastest(found, budget_bytes)
    if best is None:
        return min(found, key=lambda candidate: candidate.expected_bytes)
    rival = fastest((candidate for candidate in found if candidate.planned is None), budget_bytes)
    return dataclasses.replace(best, rival=None if best is rival else rival)


def _candidates(evaluator, budget_bytes, planner) -> Iterator[Candidate]:
    torch_candidates, rival, found = TorchCandidates(evaluator, budget_bytes), None, []
    for split, candidate in torch_candidates.within():
        found.append(candidate)
        yield candidate
        if candidate.expected_bytes <= budget_bytes:
            rival = split
    if planner is not None and (rival is None or found[-1].overhead > LITTLE):
        yield from _plans(evaluator, budget_bytes, planner, torch_candidates, rival)


def _plans(evaluator, budget_bytes, planner, torch_candidates, rival) -> Iterator[Candidate]:
    """Lowtide's plans that are predicted to be faster than ``rival``, PyTorch's split that fits;
    where there is none, of its smallest as well."""
    gain = LITTLE * evaluator.own_prediction.microseconds
    bases, most = [evaluator.own.halves], math.inf
    if rival is not None:
        most = rival.prediction.microseconds - gain
    elif torch_candidates.smallest is not None:
        bases.append(torch_candidates.smallest.halves)
    ours = []
    for base in bases:
        if fastest(ours, budget_bytes) is not None:
            break
        for candidate in plans_within(evaluator, base, budget_bytes, planner, most, gain):
            ours.append(candidate)
            yield candidate
    best = fastest(ours, budget_bytes)
    if best is not None and _may_be_fused_freely(evaluator, best, budget_bytes):
        yield evaluator.fused_freely(best)


def _may_be_fused_freely(evaluator, candidate, budget_bytes) -> bool:
    """Whether Inductor's own fusions may be faster, and fit."""
    likely = predict(candidate.halves)
    overhead = likely.microseconds / evaluator.own_prediction.microseconds - 1
    return (candidate.overhead > overhead + LITTLE
            and evaluator.likely_bytes(likely, near=False) <= budget_bytes)
