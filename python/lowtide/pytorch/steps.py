"""Which graphs of a model belong to one training step."""

from __future__ import annotations

from collections.abc import Sequence

from .region import Region


class Steps:
    """Learns it from what happens: graphs whose forward passes wait for their backward passes at
    the same time hold their values at the same time. Graphs that never do are the same code for
    other sizes, and each may have all of the memory.

    ``regions``: all there are, a list that its owner changes.
    """

    def __init__(self, regions: Sequence[Region]):
        self._regions = regions
        self._company: dict[Region, set[Region]] = {}
        self._flights: dict[Region, int] = {}

    def meet(self, region: Region) -> bool:
        """Notes what waits while a forward pass of this region begins; whether that is new."""
        company = self._company.setdefault(region, set())
        flights = region.open_flights + 1
        strangers = [other for other in self._regions
                     if other is not region and other.open_flights and other not in company]
        is_new = bool(strangers) or flights > self.flights(region)
        self._flights[region] = max(self.flights(region), flights)
        for other in strangers:
            company.add(other)
            self._company[other].add(region)
        return is_new

    def forget(self, region: Region) -> None:
        for other in self._company.pop(region):
            self._company[other].discard(region)

    def of(self, region: Region) -> list[Region]:
        """The regions of the step that this one belongs to, oldest first."""
        return [other for other in self._regions
                if other is region or other in self._company[region]]

    def flights(self, region: Region) -> int:
        """How many of its forward passes waited at most at one time."""
        return self._flights.get(region, 1)
