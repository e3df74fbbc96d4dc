"""Which split of a joint graph Inductor is to compile within a budget.

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
from ..predict.predict_peak import foreseen
from ..split.joint import Joint
from .candidate import Choice, fastest
from .evaluate import Judge, Lowering
from .plan_candidates import Planner, plans_within
from .torch_candidates import Cuts

#: An estimated overhead, as a part of the time, below which another split would gain little.
LITTLE = 0.01


def choose(joint: Joint, budget: Budget, planner: Planner | None,
           beside_bytes: int = 0, lowering: Lowering = lowered) -> Choice:
    """The fastest split within the budget; the smallest that was found where none is.

    ``budget``: where it is a share, of what a step takes with PyTorch's own split. ``planner``:
    None for PyTorch's splits alone. ``beside_bytes`` of the budget are taken by what the graph does
    not know. Ctrl-C ends the search with what was found by then, and raises
    KeyboardInterrupt where that does not fit.
    """
    judge = Judge(joint, lowering, beside_bytes)
    budget_bytes = budget.resolve(judge.own.expected_bytes)
    choice = judge.own
    if budget_bytes is not None and choice.expected_bytes > budget_bytes:
        choice = _best(judge, budget_bytes, planner)
    return dataclasses.replace(choice, budget_bytes=budget_bytes)


def _best(judge, budget_bytes, planner) -> Choice:
    found = [judge.own]
    try:
        for choice in _candidates(judge, budget_bytes, planner):
            found.append(choice)
    except KeyboardInterrupt:
        if fastest(found, budget_bytes) is None:
            raise
    best = fastest(found, budget_bytes)
    if best is None:
        return min(found, key=lambda choice: choice.expected_bytes)
    rival = fastest((choice for choice in found if choice.planned is None), budget_bytes)
    return dataclasses.replace(best, rival=None if best is rival else rival)


def _candidates(judge, budget_bytes, planner) -> Iterator[Choice]:
    cuts, rival, found = Cuts(judge, budget_bytes), None, []
    for cut, choice in cuts.within():
        found.append(choice)
        yield choice
        if choice.expected_bytes <= budget_bytes:
            rival = cut
    if planner is not None and (rival is None or found[-1].overhead > LITTLE):
        yield from _plans(judge, budget_bytes, planner, cuts, rival)


def _plans(judge, budget_bytes, planner, cuts, rival) -> Iterator[Choice]:
    """Lowtide's plans that are foreseen to be faster than ``rival``, PyTorch's split that fits;
    where there is none, of its smallest as well."""
    gain = LITTLE * judge.own_foreseen.microseconds
    bases, most = [judge.own.halves], math.inf
    if rival is not None:
        most = rival.foreseen.microseconds - gain
    elif cuts.smallest is not None:
        bases.append(cuts.smallest.halves)
    ours = []
    for base in bases:
        if fastest(ours, budget_bytes) is not None:
            break
        for choice in plans_within(judge, base, budget_bytes, planner, most, gain):
            ours.append(choice)
            yield choice
    best = fastest(ours, budget_bytes)
    if best is not None and _may_be_fused_freely(judge, best, budget_bytes):
        yield judge.fused_freely(best)


def _may_be_fused_freely(judge, choice, budget_bytes) -> bool:
    """Whether Inductor's own fusions may be faster, and fit."""
    likely = foreseen(choice.halves)
    overhead = likely.microseconds / judge.own_foreseen.microseconds - 1
    return (choice.overhead > overhead + LITTLE
            and judge.likely_bytes(likely, near=False) <= budget_bytes)
