"""Which graphs of a model belong to one training step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .region import Region


class Steps:
    """Learns it from what happens: graphs whose forward passes wait for their backward passes at
    the same time hold their values at the same time. Graphs that never do are the same code for
    other sizes, and each may have all of the memory.

    ``regions``: all there are, oldest first, a list that its owner changes.
    """

    def __init__(self, regions: Sequence[Region]):
        self._regions = regions
        #: Of what was seen to wait at one time: how many forward passes of each region. None is
        #: part of another.
        self._seen: list[dict[Region, int]] = []
        #: Regions that begin no pass any more. What they began is no part of later steps.
        self.retired: set[Region] = set()
        #: Regions of which a backward pass has run, and of which one ran before this step.
        self._trained: set[Region] = set()
        self._known: set[Region] = set()

    def begin(self) -> None:
        """A step begins: what ran until now shows which regions run with those that ran."""
        self._known |= self._trained

    def note_trained(self, region: Region) -> None:
        self._trained.add(region)

    @property
    def knows_any(self) -> bool:
        """Whether a step has ended."""
        return bool(self._known)

    def knows(self, region: Region) -> bool:
        """Whether a step with this region has ended, so that those that run with it are known."""
        return region in self._known

    def observe(self, region: Region) -> bool:
        """Notes what waits while a forward pass of this region begins; whether that is new."""
        waiting = {other: other.pending_passes + (other is region) for other in self._regions}
        waiting = {other: passes for other, passes in waiting.items()
                   if passes and other not in self.retired}
        if any(_contains(seen, waiting) for seen in self._seen):
            return False
        self._seen = [seen for seen in self._seen if not _contains(waiting, seen)] + [waiting]
        return True

    def forget(self, region: Region) -> None:
        self._trained.discard(region)
        self._known.discard(region)
        self._seen = [{other: passes for other, passes in seen.items() if other is not region}
                      for seen in self._seen]

    def replace(self, region: Region, other: Region) -> None:
        """The other one runs in its place."""
        for among in (self._trained, self._known):
            if region in among:
                among.add(other)
        self._seen = [_replaced(seen, region, other) for seen in self._seen]

    def of(self, region: Region) -> Mapping[Region, int]:
        """The regions of the largest step that this one belongs to, oldest first, and how many
        forward passes of each wait at one time."""
        steps = [seen for seen in self._seen if region in seen]
        return max(steps, key=_block_bytes, default={region: 1})


def _replaced(step: dict[Region, int], region: Region, other: Region) -> dict[Region, int]:
    if region not in step:
        return step
    others = {one: passes for one, passes in step.items() if one is not region}
    return others | {other: others.get(other, 0) + step[region]}


def _contains(step: Mapping[Region, int], other: Mapping[Region, int]) -> bool:
    return all(passes <= step.get(region, 0) for region, passes in other.items())


def _block_bytes(step: Mapping[Region, int]) -> int:
    """What all need beside parameters and inputs, at least."""
    return sum(passes * (region.priced.floor_bytes - region.priced.resident_bytes)
               for region, passes in step.items())
