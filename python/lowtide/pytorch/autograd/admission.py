"""Makes space for a new forward pass: frees idle blocks, then discards pending passes."""

from __future__ import annotations

from collections.abc import Sequence

from ... import Plan, format_bytes
from ..budget.account import BudgetAccount
from ..plans.planning import NoPlan, Refusal
from .region import Region


class Admission:
    """Keeps the blocks of all graphs within the budget.

    ``regions``: all there are, a list that its owner changes. ``discarded_passes``: whether
    pending passes lost their blocks, so that they are to be replayed; its owner sets it back.
    """

    def __init__(self, regions: Sequence[Region], account: BudgetAccount[Region]):
        self.discarded_passes = False
        self._regions, self._account = regions, account

    def plan_that_fits(self, region: Region, plan: Plan, extra_bytes: int = 0) -> Plan:
        """``plan``, that of the region's share, when there is room for it or can be made. Others
        took more than theirs when it was not known that this pass would come; then theirs are
        discarded. Where they cannot be, a plan for what is left. Raises NoPlan.

        ``extra_bytes``: what the pass takes beside what is counted for one.
        """
        whole = self._account.room_bytes(region)
        if whole is None:
            return plan
        needed = region.block_bytes(plan) + extra_bytes
        if self.taken_bytes(region) + needed <= whole:
            return plan
        self._make_room(region, whole - needed)
        left = whole - self.taken_bytes(region)
        if needed <= left:
            return plan
        budget = left - extra_bytes - region.uncounted_bytes + region.priced.resident_bytes
        try:
            return region.plans.within(budget, soon=True)
        except NoPlan as error:
            why = f"{error.refusal.why_not_less} {self.describe_taken(region)}"
            raise NoPlan(Refusal(why, why, error.refusal.smallest_plan)) from None

    def is_within(self, region: Region) -> bool:
        """Whether the blocks that are held have room, as things are in a step with the region."""
        whole = self._account.room_bytes(region)
        return whole is None or self.taken_bytes(region) <= whole

    def shrink(self, region: Region, replay_bytes: int) -> None:
        """Gives back what the budget has no room for any more, as things are in a step with this
        region: blocks that nobody needs, then those of pending passes, as ``plan_that_fits``.

        ``replay_bytes``: what a pass takes that is discarded and runs again. Gradients of those
        that are not may hold their blocks until then.
        """
        whole = self._account.room_bytes(region)
        region.executors.release_idle()
        if whole is None:
            return
        self._make_room(region, whole)
        if self.discarded_passes:
            self._make_room(region, whole - replay_bytes)

    def has(self, region: Region, kept_bytes: int) -> bool:
        """Whether so many bytes of gradients may be kept beside all blocks that are there, before a
        pass of the region."""
        whole = self._account.room_bytes(region)
        if whole is None:
            return True
        blocks = sum(executor.held_bytes for other in self._regions for executor in other.executors)
        return blocks + kept_bytes <= whole + self._account.held_bytes

    def release_idle(self) -> None:
        """Gives back the blocks that nobody needs now."""
        for region in self._regions:
            region.executors.release_idle()

    def _make_room(self, region: Region, limit_bytes: int) -> None:
        """Takes blocks from others until no more than so many bytes are taken: those that nobody
        needs, then those of the pending passes that began first: their backward passes come
        last."""
        for other in self._regions:
            if other is not region:
                other.executors.release_idle()
        waiting = [(executor.pending_pass, other, executor) for other in self._regions
                   for executor in other.executors
                   if executor.pending_pass and _why_kept(other) is None]
        for _, other, executor in sorted(waiting, key=lambda pending: pending[0]):
            if self.taken_bytes(region) <= limit_bytes:
                return
            other.passes.discard(executor)
            self.discarded_passes = True

    def taken_bytes(self, region: Region) -> int:
        """What all graphs hold, blocks excepted that the region itself takes or gives back."""
        return sum(executor.held_bytes - executor.away_bytes
                   + (other.beside_block_bytes if executor.pending_pass else 0)
                   for other in self._regions for executor in other.executors
                   if not (other is region and executor.idle))

    def describe_taken(self, region: Region) -> str:
        """What the blocks hold that are not given back, and why, for messages."""
        taken = format_bytes(self.taken_bytes(region))
        reasons = {f"{other.name} cannot be run again: {why}" for other in self._regions
                   if other.pending_passes and (why := _why_kept(other)) is not None}
        why = f" ({'; '.join(sorted(reasons))})" if reasons else ""
        return (f"(Of the budget of {self._account.budget}, {taken} are taken by forward "
                f"passes that wait for their backward pass{why} and by gradients that are kept "
                f"elsewhere than in .grad. Drop them, or run the step again: its forward passes "
                f"now share the budget.)")


def _why_kept(region: Region) -> str | None:
    """Why pending passes of the region keep their blocks; None where they need not."""
    if region.ends_what_it_began:
        return "it began in another number of slices than steps have now"
    return region.passes.why_not_replayable
