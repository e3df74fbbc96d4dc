"""Results of the forward pass that the caller no longer holds when the backward pass begins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from ... import Graph
from ..capture import Captured, storages_of

#: A result is worth a plan of its own if it takes at least this part of what all values take.
_WORTH = 0.01


class DroppedResults:
    """Storages of results that take no memory in the backward pass: what was seen in the last one,
    and before the first, all where the loss is a result itself. One that was held once may be held
    again: then it counts for the whole step. Unless ``any_dropped``, all do.
    """

    def __init__(self, captured: Captured, graph: Graph, keep_all_bytes: int,
                 any_dropped: bool = True):
        gradients = {output.tensor for output in captured.gradients if output.tensor is not None}
        storages = storages_of(graph)
        passed_on = {storages[index] for index in gradients}
        self.droppable = {
            index for index in (graph.droppable_results() if any_dropped else ())
            if index not in passed_on and _bytes(graph, index) >= _WORTH * keep_all_bytes}
        self._held: set[int] = set()
        self.now: frozenset[int] = frozenset(self.droppable if _has_loss(captured) else ())

    def observe(self, held: Iterable[int]) -> bool:
        """Takes in which results the caller held at the last backward pass; whether others are
        expected to be dropped from now on."""
        before = self.now
        self._held |= self.droppable.intersection(held)
        self.now = frozenset(self.droppable - self._held)
        return self.now != before

    @contextlib.contextmanager
    def supposing(self, dropped: frozenset[int]) -> Iterator[None]:
        """While it lasts, these are expected to be dropped."""
        before, self.now = self.now, dropped
        try:
            yield
        finally:
            self.now = before


def _has_loss(captured: Captured) -> bool:
    """Whether a number is differentiated."""
    return any(not captured.graph.tensors[index].shape for index in captured.tangents)


def _bytes(graph: Graph, index: int) -> int:
    dropped = graph.with_results_dropped([index])
    return dropped.tensors[index].bytes
