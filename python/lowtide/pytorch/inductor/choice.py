"""Which split of a joint graph Inductor is to compile within a budget.

Candidates are PyTorch's own split, which is what Inductor alone would run; PyTorch's splits with an
activation memory budget, down to the first that fits; and Lowtide's plans, asked for less or more
until the lowered graph just fits. Of those that fit as lowered the fastest is taken. Nothing is
compiled meanwhile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from ... import Graph, InfeasibleError, Planned, _core, format_bytes, structural_floor_bytes
from .cuts import Cut, cuts
from .joint import Halves, Joint, Planning
from .lowering import lowered

#: ``lowtide.plan`` with its settings: a plan of a graph within a budget.
Planner = Callable[[Graph, "int | str"], Planned]

#: Plans that are lowered: the first is asked for the budget itself, each other is corrected.
PLANS = 4
#: A part of the budget that may stay unused: another plan would gain little.
SLACK = 0.03
#: Of an estimated peak: a split that exceeds the budget by more is not lowered.
ESTIMATE = 0.2
#: The smallest plan is found to 1/32 of what lies between the floor and keeping all.
HALVINGS = 5


@dataclasses.dataclass(frozen=True)
class Choice:
    """A split, and what a step is expected to take with it.

    ``name`` says whose it is. ``expected_bytes``: the peak with parameters, buffers and inputs.
    ``overhead``: of the time, estimated, beside PyTorch's own split. ``planned``: where Lowtide
    made it. ``near``: whether Inductor is to fuse as in ``fusion.py``. ``rival``: of a plan of
    Lowtide's, the fastest of PyTorch's splits that fits. ``budget_bytes``: what the step was to fit
    in, None for no limit.
    """

    name: str
    halves: Halves
    expected_bytes: int
    overhead: float
    planned: Planned | None = None
    near: bool = False
    rival: Choice | None = None
    budget_bytes: int | None = None

    @property
    def fits(self) -> bool:
        return self.budget_bytes is None or self.expected_bytes <= self.budget_bytes


def choose(joint: Joint, budget: int | str | None, planner: Planner | None,
           beside_bytes: int = 0) -> Choice:
    """The fastest split within the budget; the smallest that was found where none is.

    ``budget``: bytes; or a share such as ``"60%"`` of what a step takes with PyTorch's own split;
    or None. ``planner``: None for PyTorch's splits alone. ``beside_bytes`` of the budget are taken
    by what the graph does not know.
    """
    judge = _Judge(joint, beside_bytes)
    budget_bytes = _resolved(budget, judge.own.expected_bytes)
    choice = judge.own
    if budget_bytes is not None and choice.expected_bytes > budget_bytes:
        choice = _within(judge, joint, budget_bytes, planner)
    return dataclasses.replace(choice, budget_bytes=budget_bytes)


def require_fit(choice: Choice) -> Choice:
    """The choice. Raises InfeasibleError where it does not fit."""
    if choice.fits:
        return choice
    raise InfeasibleError(
        f"the smallest step that was found takes {choice.expected_bytes} bytes "
        f"({format_bytes(choice.expected_bytes)}), the budget is {choice.budget_bytes} "
        f"({format_bytes(choice.budget_bytes)}); give that much, or a smaller batch")


def _resolved(budget, keep_all_bytes):
    return None if budget is None else _core.resolve_budget(str(budget), keep_all_bytes)


def _within(judge, joint, budget_bytes, planner):
    found = list(cuts(joint, judge.own.halves))
    theirs = [judge.own, *_lowered(judge, found, budget_bytes)]
    rival = _best(theirs, budget_bytes)
    if planner is None:
        return rival
    bases = found[:1]
    if rival.expected_bytes > budget_bytes and len(found) > 1:
        bases.append(min(found[1:], key=lambda cut: cut.kept_bytes))
    ours = [choice for base in bases
            for choice in _plans(judge, base.planning, budget_bytes, planner)]
    best = _best([rival, *ours], budget_bytes)
    if best is rival or best.expected_bytes > budget_bytes:
        return best
    fused = judge.fused_freely(best)
    if fused.expected_bytes <= budget_bytes and fused.overhead < best.overhead:
        best = fused
    return dataclasses.replace(
        best, rival=rival if rival.expected_bytes <= budget_bytes else None)


def _best(found: Sequence[Choice], budget_bytes: int) -> Choice:
    fitting = [choice for choice in found if choice.expected_bytes <= budget_bytes]
    if fitting:
        return min(fitting, key=lambda choice: choice.overhead)
    return min(found, key=lambda choice: choice.expected_bytes)


class _Judge:
    """Lowers splits of a joint graph, and compares them with PyTorch's own."""

    def __init__(self, joint: Joint, beside_bytes: int):
        self._joint, self.beside_bytes = joint, beside_bytes
        halves = joint.cut(1.0)
        plain = lowered(halves)
        self._plain_microseconds = plain.microseconds
        self.own = self._choice("PyTorch's own split", halves, plain)

    def planned(self, planning: Planning, found: Planned) -> Choice:
        halves = self._joint.split(planning, found.plan)
        return self._choice("Lowtide's plan", halves, lowered(halves, near=True), found, near=True)

    def fused_freely(self, choice: Choice) -> Choice:
        """The same split with Inductor's own fusions."""
        return self._choice(choice.name, choice.halves, lowered(choice.halves), choice.planned)

    def cut(self, cut: Cut, near: bool) -> Choice:
        return self._choice(f"PyTorch's split at {cut.fraction}", cut.halves,
                            lowered(cut.halves, near), near=near)

    def _choice(self, name, halves, found, planned=None, near=False):
        expected = self._joint.resident_bytes + self.beside_bytes + found.peak_bytes
        overhead = found.microseconds / self._plain_microseconds - 1
        return Choice(name, halves, expected, overhead, planned, near)


def _plans(judge, planning, budget_bytes, planner) -> Iterator[Choice]:
    """Plans asked for less by what the lowered graph exceeds the budget, or for more by what it
    leaves; the last is the smallest where no plan is within what is asked."""
    asked, too_large = budget_bytes - judge.beside_bytes, None
    for _ in range(PLANS):
        found = planner(planning.graph, max(1, asked))
        smallest = found.plan is None
        if smallest:
            found = _smallest(planning.graph, found.budget_bytes, planner)
        choice = judge.planned(planning, found)
        yield choice
        spare = budget_bytes - choice.expected_bytes
        if smallest or 0 <= spare <= SLACK * budget_bytes:
            return
        if spare < 0:
            too_large = min(asked, found.plan.peak_bytes)
            asked = too_large + spare
        else:
            asked += spare
            if too_large is not None and asked >= too_large:
                asked = (asked - spare + too_large) // 2


def _smallest(graph: Graph, too_small: int, planner: Planner) -> Planned:
    """The smallest plan that halving finds between a budget without one and keeping all."""
    best = planner(graph, "100%")
    low = max(too_small, structural_floor_bytes(graph) - 1)
    for _ in range(HALVINGS):
        found = planner(graph, (low + best.plan.peak_bytes) // 2)
        if found.plan is None:
            low = found.budget_bytes
        else:
            best = found
    return best


def _lowered(judge, found: Sequence[Cut], budget_bytes) -> Iterator[Choice]:
    """PyTorch's splits until one fits, each first as PyTorch runs it. Left out are those that by
    estimate are far from fitting."""
    per_byte = (judge.own.expected_bytes - judge.beside_bytes) / found[0].kept_bytes
    for cut in found[1:]:
        if cut.kept_bytes * per_byte + judge.beside_bytes > (1 + ESTIMATE) * budget_bytes:
            continue
        for near in (False, True):
            choice = judge.cut(cut, near)
            yield choice
            if choice.expected_bytes <= budget_bytes:
                return
