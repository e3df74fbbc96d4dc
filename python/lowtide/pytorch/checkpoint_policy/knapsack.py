"""The 0-1 knapsack, exactly: which values to keep within a size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

#: Partial choices looked at beside each other; beyond it the most promising are kept.
MOST_STATES = 20_000


def knapsack(sizes: Sequence[float], values: Sequence[float], capacity: float) -> list[int]:
    """Indices, ascending, of items whose sizes are within ``capacity`` and whose values are most.

    Sizes and values are >= 0. Dynamic programming over undominated choices (Nemhauser and Ullmann
    1969), less those whose bound, what the rest would add if items could be cut (Dantzig 1957),
    does not beat the best choice known. It is the optimum unless more than ``MOST_STATES`` choices
    are left beside each other, which takes sizes and values that hardly differ in ratio; even then
    it is no worse than taking items by ratio as long as they fit.
    """
    free = [i for i, size in enumerate(sizes) if size == 0]
    items = sorted((i for i, size in enumerate(sizes) if 0 < size <= capacity),
                   key=lambda i: values[i] / sizes[i], reverse=True)
    bound = _Bound([sizes[i] for i in items], [values[i] for i in items])
    best = _by_ratio(items, sizes, values, capacity)
    states = [(0.0, 0.0, None)]
    for position, item in enumerate(items):
        states = _undominated(states, _with(states, item, sizes, values, capacity))
        best = max(best, max(states, key=_value), key=_value)
        promising = [(state[1] + bound.rest(position + 1, capacity - state[0]), state)
                     for state in states]
        open_states = [(reach, state) for reach, state in promising if reach > best[1]]
        states = [state for _, state in _most_promising(open_states)]
        if not states:
            break
    return sorted(free + _chosen(best))


# A state is (size, value, choice); a choice is None or (item, the choice before it).


def _value(state):
    return state[1]


def _with(states, item, sizes, values, capacity):
    return [(size + sizes[item], value + values[item], (item, choice))
            for size, value, choice in states if size + sizes[item] <= capacity]


def _undominated(states, others):
    """Of both, by size, those that no smaller or equal one is worth as much as."""
    kept, most = [], -1.0
    for state in sorted(states + others, key=lambda s: (s[0], -s[1])):
        if state[1] > most:
            kept.append(state)
            most = state[1]
    return kept


def _most_promising(open_states):
    if len(open_states) <= MOST_STATES:
        return open_states
    kept = sorted(open_states, key=lambda pair: pair[0], reverse=True)[:MOST_STATES]
    return sorted(kept, key=lambda pair: pair[1][0])


def _by_ratio(items, sizes, values, capacity):
    state = (0.0, 0.0, None)
    for item in items:
        for taken in _with([state], item, sizes, values, capacity):
            state = taken
    return state


def _chosen(state):
    chosen, choice = [], state[2]
    while choice is not None:
        item, choice = choice
        chosen.append(item)
    return chosen


class _Bound:
    """What the items from a position on, sorted by ratio, add at most within a size."""

    def __init__(self, sizes, values):
        self._sizes, self._values = sizes, values
        self._size_before = [0.0, *accumulate(sizes)]
        self._value_before = [0.0, *accumulate(values)]

    def rest(self, position, size):
        reach = self._size_before[position] + size
        whole = max(bisect_right(self._size_before, reach) - 1, position)
        added = self._value_before[whole] - self._value_before[position]
        if whole == len(self._sizes):
            return added
        part = (reach - self._size_before[whole]) / self._sizes[whole]
        return added + self._values[whole] * part
