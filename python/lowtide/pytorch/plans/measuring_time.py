"""How long it takes to measure the ops of a graph, by what the same ops took at smaller sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ... import Graph

#: How often an op that takes long is run (src/profile/op_trial.h).
_RUNS = 2
#: No op's time grows faster, in the power of the bytes that it reads and makes.
_MOST_GROWTH = 3.0


def microseconds_to_measure(graph: Graph, measured: Sequence[Graph]) -> float | None:
    """At least so long. ``measured``: the same ops at smaller sizes, smallest first. None where
    there are too few of these to tell how times grow."""
    wanted = _points(graph)
    known = [_points(each) for each in measured[-2:]]
    types = [point.type for point in wanted]
    if len(known) < 2 or any([point.type for point in points] != types for points in known):
        return None
    # Ops that are alike are measured once.
    expected = {(point.type, point.shapes): _extrapolated(point.bytes, small, large)
                for point, small, large in zip(wanted, *known)}
    return _RUNS * sum(expected.values())


class _SizedOp(NamedTuple):
    """An op at one size. ``bytes``: that it reads and makes."""

    type: str
    shapes: tuple[tuple[int, ...], ...]
    bytes: int
    cost: float


def _points(graph: Graph) -> list[_SizedOp]:
    tensors = [(tuple(tensor.shape), tensor.bytes) for tensor in graph.tensors]
    found = []
    for op in graph.ops:
        used = [tensors[index] for index in (*op.inputs, *op.outputs)]
        found.append(_SizedOp(op.type, tuple(shape for shape, _ in used),
                            sum(size for _, size in used), op.cost))
    return found


def _extrapolated(size: int, small: _SizedOp, large: _SizedOp) -> float:
    """The time at a size, where that grows with some power of the size."""
    if not 0 < small.bytes < large.bytes <= size or not 0 < small.cost < large.cost:
        return large.cost
    power = math.log(large.cost / small.cost) / math.log(large.bytes / small.bytes)
    return large.cost * (size / large.bytes) ** min(power, _MOST_GROWTH)
