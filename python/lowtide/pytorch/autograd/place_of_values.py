"""What the plans of a model's graphs may move, decided by what a step then costs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from ... import InfeasibleError, Plan
from ..budget.account import BudgetAccount
from ..budget.may_move import MayMove
from .region import Region


class PlaceOfValues:
    """Plans that move something have less memory, as copies need buffers. So all plans of a step
    may move values, or none of them, and the budget then has no buffers. Parameters move where a
    step is one pass of one graph.

    ``regions``: all there are, a list that its owner changes. ``most``: what the settings allow.
    """

    def __init__(self, account: BudgetAccount[Region], regions: Sequence[Region], most: MayMove):
        self._account, self._regions, self._most = account, regions, most
        self.may_move = MayMove.NOTHING
        self._step: Mapping[Region, int] | None = None

    def set(self, may_move: MayMove) -> None:
        self.may_move = may_move
        self._account.move_values(may_move is not MayMove.NOTHING)
        for region in self._regions:
            region.let_move(may_move)

    def others(self, step: Mapping[Region, int]) -> Iterator[MayMove]:
        """Each of what else plans of a step of these graphs could move, while it is so."""
        present = self.may_move
        for may_move in self._choices(step):
            if may_move is not present:
                self.set(may_move)
                yield may_move

    def are_chosen_for(self, step: Mapping[Region, int]) -> bool:
        """Whether that was decided by a step of these graphs."""
        return self._most is MayMove.NOTHING or step == self._step

    def choose(self, step: Mapping[Region, int], planned: Callable[[Region], Plan]) -> None:
        """What a step of these graphs takes the least time by, and the least of it where it makes
        no difference. Raises InfeasibleError where there are several and it has no plans by any.

        ``planned``: makes a region's plan as things are then; raises InfeasibleError.
        """
        self._step = dict(step)
        choices = self._choices(step)
        if len(choices) == 1:
            self.set(choices[0])
            return
        costs = {}
        for may_move in choices:
            self.set(may_move)
            with contextlib.suppress(InfeasibleError):
                plans = {region: planned(region) for region in step}
                costs[may_move] = sum(passes * region.chosen_cost(plans[region])
                                      for region, passes in step.items())
                if _keep_all(step, plans):
                    break
        if not costs:
            for region in step:
                planned(region)  # raises why not
        self.set(min(costs, key=lambda may_move: (costs[may_move], may_move)))

    def choose_smallest(self, step: Mapping[Region, int], enough: Callable[[], int]) -> int:
        """What a step of these graphs needs the smallest budget by, which is returned.

        ``enough``: the budget that would do as things are then.
        """
        budgets = {self.may_move: enough()}
        for may_move in self.others(step):
            budgets[may_move] = enough()
        best = min(budgets, key=lambda may_move: (budgets[may_move], may_move))
        self.set(best)
        return budgets[best]

    def _choices(self, step: Mapping[Region, int]) -> list[MayMove]:
        """Where the optimizer's state moves, the buffers are there in any case."""
        is_one_pass = sum(step.values()) == 1
        most = self._most if is_one_pass else min(self._most, MayMove.VALUES)
        least = most and MayMove.VALUES if self._account.moves_state else MayMove.NOTHING
        return [may_move for may_move in MayMove if least <= may_move <= most]



def _keep_all(step: Mapping[Region, int], plans: Mapping[Region, Plan]) -> bool:
    """Whether no plan of a step takes longer than to keep everything."""
    least = sum(passes * region.priced.keep_all_cost for region, passes in step.items())
    return sum(passes * region.cost(plans[region]) for region, passes in step.items()) <= least
