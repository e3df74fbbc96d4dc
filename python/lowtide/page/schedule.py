"""What runs and what moves when, by lane."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence, Set
from typing import NamedTuple

from .. import Graph, Plan

AGAIN, NETWORK = "run again", "network"
#: In the order of a page, the first on top.
LANES = ("forward", "backward", "optimizer", AGAIN, NETWORK, "copies out", "copies in", "waits")
_OF_VERB = {"offload": "copies out", "prefetch": "copies in", "wait": "waits"}
#: Ops that begin or end a collective of several ranks.
_COLLECTIVE = re.compile(r"lowtide::(gather|reduce|scatter)_(start|wait)")
_MOST_BARS = 600


class Bar(NamedTuple):
    """Something that takes time; so many neighbours of a lane in one, named after the longest."""

    begin: float
    end: float
    name: str
    number: int = 1
    #: The time of all, which may have gaps between them.
    busy: float = 0.0


def lanes_of(graph: Graph, plan: Plan, again: Set[int] = frozenset()) -> list[str]:
    """By action, the lane that it takes time in; "" for one that takes none by its kind.
    ``again``: as of ``lives``."""
    ops, ran, found = graph.ops, set(again), []
    for action in plan.actions:
        verb, index = action[0], action[1]
        if verb != "run":
            found.append(_OF_VERB.get(verb, ""))
            continue
        lane = NETWORK if _COLLECTIVE.fullmatch(ops[index].type) else ops[index].phase
        found.append(AGAIN if index in ran else lane)
        ran.add(index)
    return found


def schedule(graph: Graph, plan: Plan, moments: Sequence[tuple[float, float, float]],
             again: Set[int] = frozenset()) -> dict[str, list[Bar]]:
    """By lane, those that are in use. ``moments``: as of ``_core.timeline``; ``again``: as of
    ``lives``."""
    ops, tensors = graph.ops, graph.tensors
    lanes = defaultdict(list)
    by_action = lanes_of(graph, plan, again)
    for action, lane, (_, begin, end) in zip(plan.actions, by_action, moments):
        if lane and end > begin:
            name = (ops if action[0] == "run" else tensors)[action[1]].name
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
