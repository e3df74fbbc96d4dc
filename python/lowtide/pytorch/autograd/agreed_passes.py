"""What several ranks agree on before each pass, so that all of them decide the same."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence

from ... import Plan
from ..shards.group import Group, in_one_number
from .region import Region


class AgreedPasses:
    """Plans, and so the order of collectives, follow from what was taken before and is taken now,
    which may be more on some ranks: one keeps a result or a gradient that others drop. Then all go
    by the one that takes the most. Without a group, by what is so here.

    Each pass is announced, so that ranks which do something else raise an error, and do not wait
    for each other in different collectives. ``regions``: a list that its owner changes.
    """

    def __init__(self, group: Group | None, regions: Sequence[Region]):
        self._group, self._regions = group, regions
        self._digests: dict[Plan, str] = {}
        #: The region and the plan of the last forward pass, as the ranks have compared them.
        self._ran = ""
        self._has_announced_forward = False

    def failing_together(self, is_of_a_range: bool) -> contextlib.AbstractContextManager[None]:
        """Around what ranks decide before a pass. Where they run unlike sizes of a range, one may
        fail alone, and the others are not to wait for it."""
        if self._group is None or not is_of_a_range:
            return contextlib.nullcontext()
        return self._group.failing_together("run a forward pass")

    def begin_step(self, region: Region, unforeseen_bytes: int, kept_bytes: int,
                   holding: Sequence[Region], taken_bytes: int) -> tuple[int, int, list[Region]]:
        """What the last step took unforeseen, what gradients take that are kept, and the regions in
        whose blocks gradients are held.

        Announces the forward pass too, by the plan of the last one, where no rank holds anything
        that it must have room beside. With several regions, blocks of others may be there on some
        ranks until it begins.
        """
        if self._group is None:
            return unforeseen_bytes, kept_bytes, list(holding)
        leaders = [other for other in self._regions if other.leader is other]
        held = {other.leader for other in holding}
        flags = in_one_number(leader in held for leader in leaders)
        found = self._group.meet("begin a step", f"{region.leader.name} after {self._ran}",
                                 unforeseen_bytes, kept_bytes, flags, taken_bytes)
        unforeseen, kept, all_flags, taken = zip(*found)
        self._has_announced_forward = len(leaders) == 1 and not any(taken)
        held = {leader for place, leader in enumerate(leaders)
                if any(flags >> place & 1 for flags in all_flags)}
        return max(unforeseen), max(kept), [other for other in self._regions
                                            if other.leader in held]

    def forward(self, region: Region, plan: Plan, taken_bytes: int) -> int:
        """How much more than here is taken on some rank."""
        if self._group is None:
            return 0
        what = f"{region.leader.name} {self._digest(region, plan)}"
        is_announced = self._has_announced_forward
        self._has_announced_forward = False
        if is_announced and what == self._ran:
            return 0
        more = self._more("run a forward pass", what, taken_bytes)
        self._ran = what
        return more

    def backward(self, region: Region, is_replayed: bool, taken_bytes: int) -> int:
        """The same."""
        if self._group is None:
            return 0
        what = region.leader.name
        if not region.is_of_a_range:  # else a rank with a larger size may have no room for its pass
            what += f" {is_replayed}"
        return self._more("run a backward pass", what, taken_bytes)

    def held_results(self, region: Region, held: Iterable[int]) -> Iterable[int]:
        """Those that the caller of some rank held when the backward pass began, of those that count
        as dropped where nobody holds them."""
        droppable = sorted(region.results.droppable)
        if self._group is None or not droppable:
            return held
        here = set(held)
        found = self._group.any_of("end a backward pass", region.leader.name,
                                   [storage in here for storage in droppable])
        return [storage for storage, is_held in zip(droppable, found) if is_held]

    def _more(self, what: str, about: str, taken_bytes: int) -> int:
        return self._group.largest(what, about, taken_bytes)[0] - taken_bytes

    def _digest(self, region: Region, plan: Plan) -> str:
        """Of sizes of a range, ranks may run different ones, in one order of ops."""
        if plan not in self._digests:
            agreed = (str([action[1] for action in plan.actions if action[0] == "run"])
                      if region.is_of_a_range else plan.format())
            self._digests[plan] = hashlib.sha256(agreed.encode()).hexdigest()
        return self._digests[plan]
