"""What runs and what moves when, by lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from .. import Graph, Plan

AGAIN = "run again"
#: In the order of a page, the first on top.
LANES = ("forward", "backward", "optimizer", AGAIN, "copies out", "copies in", "waits")
_OF_VERB = {"offload": "copies out", "prefetch": "copies in", "wait": "waits"}
_MOST_BARS = 600


class Bar(NamedTuple):
    """Something that takes time; so many neighbours of a lane in one, named after the longest."""

    begin: float
    end: float
    name: str
    number: int = 1
    #: The time of all, which may have gaps between them.
    busy: float = 0.0


def schedule(graph: Graph, plan: Plan,
             moments: Sequence[tuple[float, float, float]]) -> dict[str, list[Bar]]:
    """By lane, those that are in use. ``moments``: as of ``_core.timeline``."""
    ops, tensors = graph.ops, graph.tensors
    lanes, ran = defaultdict(list), set()
    for action, (_, begin, end) in zip(plan.actions, moments):
        verb, index = action[0], action[1]
        if verb == "run":
            lane = AGAIN if index in ran else ops[index].phase
            ran.add(index)
            name = ops[index].name
        elif verb != "free":
            lane, name = _OF_VERB[verb], tensors[index].name
        if verb != "free" and end > begin:
            lanes[lane].append(Bar(begin, end, name, 1, end - begin))
    whole = max((bar.end for bars in lanes.values() for bar in bars), default=0.0)
    return {lane: _merged(lanes[lane], whole / _MOST_BARS) for lane in LANES if lanes[lane]}


def _merged(bars: Sequence[Bar], resolution: float) -> list[Bar]:
    """All of them where they are few; otherwise those of one column in one."""
    if len(bars) <= _MOST_BARS:
        return list(bars)
    merged, longest = [bars[0]], bars[0].busy
    for bar in bars[1:]:
        last = merged[-1]
        if bar.end - last.begin > resolution:
            merged.append(bar)
            longest = bar.busy
            continue
        name = bar.name if bar.busy > longest else last.name
        longest = max(longest, bar.busy)
        merged[-1] = Bar(last.begin, bar.end, name, last.number + bar.number, last.busy + bar.busy)
    return merged
