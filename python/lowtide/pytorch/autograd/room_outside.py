"""Room that steps leave to other code of the process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from ... import InfeasibleError, format_bytes
from ..budget.account import BudgetAccount
from ..budget.memory import outside_room
from ..common.notices import Notices, warn
from .meter import Meter
from .region import Region
from .room_between import RoomBetween
from .step_plans import StepPlans

#: Steps in a row, each with other sizes than before, after which what they all took says something.
_MANY_UNTYPICAL = 3


class RoomOutside:
    """What a step took more than its plans count, for other code, counts from then on, where plans
    can do with what is left.

    ``regions``: all there are, a list that its owner changes.
    """

    def __init__(self, account: BudgetAccount[Region], step_plans: StepPlans,
                 regions: Sequence[Region]):
        self._account, self._step_plans, self._regions = account, step_plans, regions
        self._between = RoomBetween()
        self._is_sought = True
        #: Whether what the step under way takes says something of those that follow. It does not
        #: where a graph is captured, as ops are measured then, nor where the plan is for results
        #: that turn out to be held or dropped.
        self.step_is_typical = True
        #: What the last steps took more than their plans count, since one was typical.
        self._untypical: deque[int] = deque(maxlen=_MANY_UNTYPICAL)
        #: Of the step that ended before a graph was captured for the one that comes: whether it was
        #: typical, and what it took more than its plans count.
        self._ended: tuple[bool, int] | None = None

    def seek_again(self) -> None:
        """Another budget may have the room that there was not."""
        self._is_sought = True

    def end_step(self, unforeseen_bytes: int) -> None:
        """A graph is about to be captured for the step that comes, which says nothing of the one
        before, by which so many bytes more were taken."""
        if self._ended is None:
            self._ended = self.step_is_typical, unforeseen_bytes

    def typical(self, unforeseen_bytes: int) -> int:
        """By how much the last step took more than its plans count, where that says something."""
        is_typical, unforeseen = self._last_step(unforeseen_bytes)
        return unforeseen if is_typical else 0

    def _last_step(self, unforeseen_bytes: int) -> tuple[bool, int]:
        return self._ended or (self.step_is_typical, unforeseen_bytes)

    def leave(self, region: Region, step: Iterable[Region], unforeseen_bytes: int) -> None:
        """A step begins, with this region, after one that typically took so many bytes more."""
        self.step_is_typical, self._ended = True, None
        if not self._is_sought or unforeseen_bytes <= self._account.left_outside:
            return
        seen, before = outside_room(unforeseen_bytes), self._account.outside_bytes
        self._reserve(seen)
        try:
            for other in dict.fromkeys(other.leader for other in step):
                self._step_plans.within_share(other)
        except InfeasibleError as error:
            self._is_sought = False
            reason = self._step_plans.explained(region, error)
            self._reserve(before)
            warn(f"other code of this process took {format_bytes(seen)} during the last step, "
                 f"which the budget of {self._account.budget} has no room for, so that steps "
                 f"exceed it. Put the loss into the module, so that it is planned, or allow more. "
                 f"{reason}")

    def see_untypical(self, meter: Meter, notices: Notices) -> None:
        """A step begins. Where each one has sizes of its own, none is ever typical, and no plan is
        made that leaves room; that they exceed the budget is said."""
        is_typical, unforeseen = self._last_step(meter.unforeseen_bytes)
        if is_typical:
            self._untypical.clear()
            return
        self._untypical.append(unforeseen)
        seen, total = min(self._untypical), self._account.budget_bytes
        if (len(self._untypical) < _MANY_UNTYPICAL or seen <= self._account.left_outside
                or total is None or meter.peak_bytes <= total):
            return
        notices.warn_once("untypical steps", (
            f"each of the last {_MANY_UNTYPICAL} steps was planned anew and took at least "
            f"{format_bytes(seen)} that no plan counts, which the budget of {self._account.budget} "
            f"had no room for: {format_bytes(meter.peak_bytes)} in all. Have fewer sizes, such as "
            f"by padding to a few lengths, so that plans leave room for other code, or put that "
            f"code into the module"))

    def leave_between(self, meter: Meter) -> None:
        """A step begins. Where the one before exceeded the budget when its passes were over, plans
        leave what was taken then, as far as they can, until that is not needed any more: code
        between two steps, such as the forward pass of a teacher, runs beside the block of a step.
        """
        total = self._account.budget_bytes
        is_typical, _ = self._last_step(0)
        if not is_typical or total is None or not meter.has_trained:
            return
        room = self._between.after_step(outside_room(meter.between_bytes, 32),
                                        exceeded=meter.between_peak_bytes > total)
        if room != self._account.between_bytes:
            self._account.between_bytes = room
            self._leave_afterwards()

    def _reserve(self, outside_bytes: int) -> None:
        self._account.reserve_outside(outside_bytes)
        self._leave_afterwards()

    def _leave_afterwards(self) -> None:
        for region in self._regions:
            region.leave_afterwards(self._account.afterwards)
