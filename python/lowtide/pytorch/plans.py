"""The plans of one captured graph, by the memory that they were made for."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable

from .. import InfeasibleError, Plan, keep_all
from .planning import Priced, kept, least_bytes, planned, transferred
from .settings import Settings

#: Seconds for a plan that a training run waits for; a better one is looked for meanwhile.
_SOON = 1.0

#: Better plans are looked for one after the other: the training run needs the processor too.
_ONE_SEARCH_AT_A_TIME = threading.Lock()


class Plans:
    """Makes plans and remembers them.

    ``relatives``: the plans of the model's other graphs. What was decided for the same ops with
    other sizes is tried before anything is searched for.
    """

    def __init__(self, priced: Priced, settings: Settings, relatives: Iterable[Plans] = ()):
        self.priced = priced
        self._settings = settings
        self._relatives = relatives
        self._found: dict[int | None, Plan] = {}

    def within(self, budget_bytes: int | None, *, soon: bool = False) -> Plan:
        """The plan for so many bytes, residents included. Raises InfeasibleError.

        With ``soon``, one that is at hand or takes a second, and a better one later, when a thread
        has found it.
        """
        if budget_bytes not in self._found:
            make = self._soon if soon else self._now
            self._found[budget_bytes] = make(budget_bytes)
        return self._found[budget_bytes]

    def least_bytes(self) -> int:
        """About the fewest bytes that there is a plan for, residents included."""
        return least_bytes(self.priced, self._settings)

    def _now(self, budget_bytes: int | None) -> Plan:
        return planned(self.priced, budget_bytes, self._settings)

    def _soon(self, budget_bytes: int | None) -> Plan:
        found = kept(self.priced, budget_bytes, self._settings)
        if found is not None:
            return found
        found = self._at_hand(budget_bytes)
        if found is None and self._settings.time_limit <= _SOON:
            return self._now(budget_bytes)
        if found is None:
            found = self._in_haste(budget_bytes)
        if found.cost > self.priced.keep_all_cost:
            threading.Thread(target=self._improve, args=(budget_bytes, found),
                             name="lowtide-improve").start()
        return found

    def _at_hand(self, budget_bytes: int | None) -> Plan | None:
        """The best that fits of what needs no search: everything is kept, a plan for less memory,
        or one of a relative."""
        if budget_bytes is None:
            return None
        all_kept = keep_all(self.priced.graph)
        laid_out = transferred(self.priced, self.priced, all_kept, budget_bytes)
        if laid_out is not None:
            return laid_out
        fitting = [plan for plan in tuple(self._found.values()) if plan.arena_bytes <= budget_bytes]
        fitting += self._of_the_nearest(budget_bytes)
        return min(fitting, key=lambda plan: plan.cost, default=None)

    def _of_the_nearest(self, budget_bytes: int) -> list[Plan]:
        """The plans that fit of the relative next in size, of those that have any."""
        def distance(relative):
            return abs(relative.priced.keep_all_peak_bytes - self.priced.keep_all_peak_bytes)

        others = [relative for relative in self._relatives if relative is not self]
        for relative in sorted(others, key=distance):
            plans = [transferred(self.priced, relative.priced, plan, budget_bytes)
                     for plan in tuple(relative._found.values())]
            fitting = [plan for plan in plans if plan is not None]
            if fitting:
                return fitting
        return []

    def _in_haste(self, budget_bytes: int | None) -> Plan:
        quick = dataclasses.replace(self._settings, time_limit=_SOON)
        try:
            return planned(self.priced, budget_bytes, quick)
        except InfeasibleError:
            return self._now(budget_bytes)

    def _improve(self, budget_bytes: int | None, first: Plan) -> None:
        """Replaces a plan that was made in haste; the next forward pass takes the new one.

        A program that ends waits for the search that goes on, as no thread may be in the planner
        when the process ends; its plan is there at the next start. No other one is begun.
        """
        with _ONE_SEARCH_AT_A_TIME:
            if not threading.main_thread().is_alive():
                return
            try:
                better = planned(self.priced, budget_bytes,
                                 dataclasses.replace(self._settings, report=None))
            except InfeasibleError:
                return  # the first one holds
        if better.cost < first.cost:
            self._found[budget_bytes] = better
