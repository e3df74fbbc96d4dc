"""PyTorch's splits of a joint graph with smaller and smaller activation memory budgets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ... import keep_all, replay
from .joint import Halves, Joint, Planning, is_exact

#: The budgets that are looked at beside 1, which is what Inductor alone runs; the fastest first.
FRACTIONS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


@dataclass(frozen=True)
class Cut:
    """PyTorch's split at a budget, and the graph of both halves. ``kept_bytes``: the peak of that
    graph, with every value priced as if it lay in memory."""

    fraction: float
    halves: Halves
    planning: Planning
    kept_bytes: int


def cuts(joint: Joint, own: Halves) -> Iterator[Cut]:
    """``own``, the split at 1, and the first of each that are alike at smaller budgets, up to where
    gradients would be wrong: from there on no less is computed again."""
    yield _cut(joint, 1.0, own)
    last = _saved(own)
    for fraction in FRACTIONS:
        halves = joint.cut(fraction)
        if not is_exact(halves):
            return
        if _saved(halves) != last:
            yield _cut(joint, fraction, halves)
        last = _saved(halves)


def _cut(joint, fraction, halves):
    planning = joint.planning(halves)
    kept = replay(planning.graph, keep_all(planning.graph))
    return Cut(fraction, halves, planning, kept.peak_bytes)


def _saved(halves):
    return {node.name for node in halves[1].graph.find_nodes(op="placeholder")}
