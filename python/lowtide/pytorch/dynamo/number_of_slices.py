"""In how many slices a graph runs where the number is to be found: by the cost of its plans."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable

from ... import InfeasibleError
from ..autograd.attempt import Costs, Kind
from ..autograd.choices import Undo
from ..autograd.comparison import Comparison, TooSlow
from ..autograd.planned_graph import PlannedGraph
from ..autograd.session import Session
from .joint_trace import JointTrace

#: All that the settings allow.
_ALL = True, max(Kind)


class FastestSlices:
    """Runs a graph in the number of slices whose plan costs the least; chosen by ``choose``, and
    again for another budget.

    ``trace``: the joint graph in so many slices, or in fewer where there are no more rows; or what
    runs it without one. ``planned``: plans it in the session; raises InfeasibleError.
    """

    def __init__(self, session: Session, name: str,
                 trace: Callable[[int], JointTrace | Callable],
                 planned: Callable[[JointTrace], Callable]):
        self._session, self._name, self._trace, self._planned = session, name, trace, planned
        self._traced: dict[int, JointTrace | Callable] = {}
        self._chosen: RunInSlices | None = None

    def __call__(self, *primals):
        assert self._chosen is not None
        return self._chosen.run(*primals)

    def choose(self) -> Callable:
        """What runs the graph. Raises InfeasibleError where no number has a plan, of the number
        that needs the least."""
        found = self._fastest()
        if not isinstance(found, RunInSlices):
            return found
        self._chosen = found
        self._session.choices.add(self._choose_again)
        return self

    def _choose_again(self, undo: list[Undo]) -> None:
        before = self._chosen
        assert before is not None

        def put_back() -> None:
            if self._chosen is not None and self._chosen is not before:
                self._session.withdraw(self._chosen.graphs)
                self._chosen = before
            self._session.readmit(before.graphs)

        self._session.withdraw(before.graphs)
        undo.append(put_back)
        found = self._fastest()
        assert isinstance(found, RunInSlices), "it has a joint graph"
        self._chosen = found
        self._session.search_longer(self._chosen.graphs)

    def _fastest(self) -> RunInSlices | Callable:
        """Tries 1, 2, 4, ... slices. Ends where more slices cost more, and begins with one slice:
        where that keeps all values, results keep the bits of the model."""
        choice = _Choice(self._session, self._planned)
        for slices in (1 << power for power in itertools.count()):
            found = self._in_slices(slices)
            if not isinstance(found, JointTrace):
                return found
            if found.slices < slices:
                if found.slices == 1 and not choice.has_plan:
                    self._session.note_no_slices(self._name)
                break
            if not choice.consider(found):
                break
        return choice.take()

    def _in_slices(self, number: int) -> JointTrace | Callable:
        if number not in self._traced:
            self._traced[number] = self._trace(number)
        return self._traced[number]


@dataclasses.dataclass(frozen=True)
class RunInSlices:
    """What runs a number of slices, and the graphs that it runs."""

    run: Callable
    graphs: tuple[PlannedGraph, ...]
    cost: float = math.inf


class _Choice:
    """The first number that has a plan is planned for the whole time limit, the next for half of
    it, then a quarter and so on: all of them together take no more than twice the limit.

    The session has the graphs of one candidate at a time, as they would share its budget.
    """

    def __init__(self, session: Session, planned: Callable[[JointTrace], Callable]):
        self._session, self._planned = session, planned
        self._comparison = Comparison(session.time_limit)
        self._best: RunInSlices | None = None
        self._rising = _Rising()
        self._refusals: list[tuple[InfeasibleError, JointTrace]] = []

    @property
    def has_plan(self) -> bool:
        return self._best is not None

    def consider(self, trace: JointTrace) -> bool:
        """Whether more slices may be faster."""
        if self._best is not None:
            self._comparison.seconds /= 2
            self._comparison.below = self._best.cost
        try:
            found = self._tried(trace)
        except TooSlow:
            self._say(trace, "slower, whatever is kept")
            return False
        self._rising.observe(self._comparison.costs if found else {})
        if found is None:
            return True
        self._session.withdraw(found.graphs)
        if self._best is None or found.cost < self._best.cost:
            self._best = found
        keeps_all = trace.slices == 1 and self._comparison.keeps_all
        return not keeps_all and not self._rising.is_everywhere

    def take(self) -> RunInSlices:
        """Where no number has a plan, a step may exceed the budget if the settings want that."""
        if self._best is not None:
            self._session.readmit(self._best.graphs)
            return self._best
        error, trace = min(self._refusals, key=lambda refusal: _needed_bytes(refusal[0]))
        self._refusals.clear()
        if self._session.may_exceed:
            return self._planned_now(trace)
        try:
            raise error
        finally:
            del error  # it would keep this frame

    def _tried(self, trace: JointTrace) -> RunInSlices | None:
        self._comparison.begin()
        try:
            with self._session.comparing(self._comparison):
                found = self._planned_now(trace)
        except InfeasibleError as error:
            self._refusals.append((error, trace))
            self._say(trace, "no plan within the budget")
            return None
        cost = self._comparison.costs[_ALL]
        self._say(trace, f"{cost:.4g} {found.graphs[0].region.priced.graph.cost_unit}")
        return dataclasses.replace(found, cost=cost)

    def _planned_now(self, trace: JointTrace) -> RunInSlices:
        before = self._session.planned
        run = self._planned(trace)
        return RunInSlices(run, tuple(graph for graph in self._session.planned
                                    if graph not in before))

    def _say(self, trace: JointTrace, what: str) -> None:
        number = f"{trace.slices} slice{'s' if trace.slices > 1 else ''}"
        self._session.settings.say(f"{trace.captured.graph.name} in {number}: {what}")


class _Rising:
    """By what else than slices is allowed: whether the last number of slices cost more than fewer.
    What some of it finds by more slices is found by all of it too, so that all have to rise."""

    def __init__(self):
        self._least = {(moves, kind): math.inf for moves in (False, True) for kind in Kind}
        self._rose: set[tuple[bool, Kind]] = set()

    @property
    def is_everywhere(self) -> bool:
        return len(self._rose) == len(self._least)

    def observe(self, costs: Costs) -> None:
        """Of the next number; none where that has no plan."""
        for allowed, least in self._least.items():
            cost = costs.get(allowed, math.inf)
            if least < math.inf and cost >= least:
                self._rose.add(allowed)
            self._least[allowed] = min(least, cost)


def _needed_bytes(error: InfeasibleError) -> float:
    needed = getattr(error, "smallest_budget", None)
    return float("inf") if needed is None else needed
