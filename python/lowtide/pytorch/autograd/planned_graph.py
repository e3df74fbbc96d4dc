"""A captured graph of a model, and the region that it runs by as long as the budget stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..capture import Captured
from ..stash import Stash, Stashes
from .region import Region
from .sizes_of_graph import SizesOfGraph


class PlannedGraph:
    """``region``: of the step as it was captured, or with stashes; its owner exchanges it where
    another one is faster. What earlier ones began, they end. ``stashes``: what it may hold in fewer
    bits. ``sizes``: those of a range, where it is at one of them."""

    region: Region

    def __init__(self, captured: Captured, stashes: Stashes[Captured],
                 sizes: SizesOfGraph | None = None):
        self.captured, self.stashes, self.sizes = captured, stashes, sizes
        self._by_set: dict[frozenset[str], Region] = {}

    @property
    def name(self) -> str:
        return self.captured.graph.name

    def with_stashes(self, chosen: Sequence[Stash],
                     make: Callable[[Captured], Region]) -> Region:
        """The region with these, which is made once."""
        names = frozenset(stash.name for stash in chosen)
        if names not in self._by_set:
            self._by_set[names] = make(self.stashes.captured_with(chosen) if chosen
                                       else self.captured)
        return self._by_set[names]

    def awaiting(self, ticket: torch.Tensor):
        """The region and its executor whose pending pass has this ticket; the present region and
        None where that was run or discarded."""
        for region in self._by_set.values():
            executor = region.executors.awaiting(ticket)
            if executor is not None:
                return region, executor
        return self.region, None

    def forget_all_but_pending(self) -> None:
        """As of the executors of all its regions."""
        for region in self._by_set.values():
            region.executors.forget_all_but_pending()
