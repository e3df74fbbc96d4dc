"""The memory of a plan over time, by what it holds."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .lives import Content, Life

#: Of the time of a step. A picture is hardly wider.
_COLUMNS = 600


class Band(NamedTuple):
    """What is stacked on what: of ACTIVATIONS, one for each group of layers."""

    content: Content
    group: str = ""


class MemoryOverTime(NamedTuple):
    """``actions``: those that are shown, at which the band has so many ``bytes``; they add up to
    the replay's memory there."""

    actions: list[int]
    bytes: dict[Band, list[int]]


def shown_actions(memory: Sequence[int], reached: Sequence[float]) -> list[int]:
    """All actions, or those with the most and the fewest bytes in each column: the peak is among
    them. Also the first and the last. ``reached``: the times of the actions."""
    if len(memory) <= 2 * _COLUMNS:
        return list(range(len(memory)))
    width = (reached[-1] or 1.0) / _COLUMNS
    shown = {0, len(memory) - 1}
    for _, column in itertools.groupby(range(len(memory)), lambda at: int(reached[at] / width)):
        some = list(column)
        shown |= {max(some, key=memory.__getitem__), min(some, key=memory.__getitem__)}
    return sorted(shown)


def memory_over_time(lives: Sequence[Life], actions: Sequence[int], group_of: Callable[[Life], str],
                     residents: Mapping[Content, int]) -> MemoryOverTime:
    """``actions``: ascending; ``group_of``: of a life of ACTIVATIONS; ``residents``: what is held
    throughout."""
    changes = defaultdict(list)
    for life in lives:
        band = Band(life.content, group_of(life) if life.content is Content.ACTIVATIONS else "")
        changes[band] += [(life.begin, life.bytes), (life.end, -life.bytes)]
    held = {Band(content): [size] * len(actions) for content, size in residents.items() if size}
    held |= {band: _at(actions, sorted(some)) for band, some in changes.items()}
    order = {content: number for number, content in enumerate(Content)}
    first = {band: min(some) for band, some in changes.items()}
    bands = sorted(held, key=lambda band: (order[band.content], first.get(band, (0, 0))))
    return MemoryOverTime(list(actions), {band: held[band] for band in bands})


def _at(actions: Sequence[int], changes: Sequence[tuple[int, int]]) -> list[int]:
    """The sum of all changes up to each of the actions."""
    now, done, found = 0, 0, []
    for action in actions:
        while done < len(changes) and changes[done][0] <= action:
            now += changes[done][1]
            done += 1
        found.append(now)
    return found
