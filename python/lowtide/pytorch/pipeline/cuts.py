"""Where to cut a row of blocks into stages."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

#: ``cost(first, end, stage)``: what the stage costs with blocks [first, end); infinite where it
#: cannot have them.
StageCost = Callable[[int, int, int], float]


def cheapest_cuts(blocks: int, stages: int, cost: StageCost) -> list[int] | None:
    """The begins of the stages and the number of blocks, so that each stage has one block or more,
    the largest cost of a stage is the smallest possible and, of all such cuts, the sum of the costs
    is; None where no cuts have finite costs.

    Exact: O(stages * blocks^2) costs. Two passes, as the smallest sum is wanted among cuts with the
    smallest largest cost, and a part of these need not have its own smallest largest cost.
    """
    known = {(first, end, stage): cost(first, end, stage)
             for stage in range(stages)
             for first in range(stage, blocks - stages + stage + 1)
             for end in range(first + 1, blocks - stages + stage + 2)}
    largest = _best(blocks, stages, known, max, -math.inf, math.inf)
    if largest is None:
        return None
    limit = max(known[first, end, stage]
                for stage, (first, end) in enumerate(zip(largest, largest[1:])))
    return _best(blocks, stages, known, operator.add, 0.0, limit)


def _best(blocks: int, stages: int, known: dict[tuple[int, int, int], float],
          joined: Callable[[float, float], float], none: float, limit: float) -> list[int] | None:
    """Of cuts whose costs are finite and within the limit, those whose joined cost is smallest.
    ``none``: the joined cost of no stages."""
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (none, (0,))}
    for stage in range(stages):
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for first, (so_far, begins) in best.items():
            for end in range(first + 1, blocks + 1):
                own = known.get((first, end, stage), math.inf)
                if math.isinf(own) or own > limit:
                    continue
                candidate = joined(so_far, own), (*begins, end)
                if end not in longer or candidate < longer[end]:
                    longer[end] = candidate
        best = longer
    return list(best[blocks][1]) if blocks in best else None


def ranges_of(cuts: Sequence[int]) -> list[range]:
    """The blocks of each stage."""
    return [range(first, end) for first, end in zip(cuts, cuts[1:])]
