"""Costs and requests for memory of a graph's ops, from those that were measured at other sizes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction

from ... import Graph


class CostsBetween:
    """``measured``: the same ops at several sizes, smallest first.

    The cost of an op lies on the line between the two sizes next to its own. Its requests for
    memory, which an executor serves one by one, are known where each was, at all sizes that were
    measured, a line over one count: of the elements of a tensor that the op reads or makes, as the
    bytes of a copy are, or of its rows in some dimension, as those of a maximum are. That holds for
    nearly all ops, and for none that uses another algorithm at one of these sizes.
    """

    def __init__(self, measured: Sequence[Graph]):
        self._known = [json.loads(graph.format()) for graph in measured]
        self._counts = [_counts(document) for document in self._known]

    def of(self, graph: Graph) -> Graph | None:
        """The graph with costs; None where other ops were measured, or the requests of some op are
        not known, so that it has to be measured."""
        document = json.loads(graph.format())
        if any(_types(known) != _types(document) for known in self._known):
            return None
        document |= {key: value for key, value in self._known[-1].items()
                     if key in ("device", "cost_unit", "alignment")}
        counts = _counts(document)
        for number, op in enumerate(document["ops"]):
            points = [_Point(known["ops"][number], others)
                      for known, others in zip(self._known, self._counts)]
            if not _fill(op, _Point(op, counts), points):
                return None
        return Graph.parse(json.dumps(document), f"the graph of {graph.name}")


class _Point:
    """An op at one size: ``total``, elements that it reads and makes; ``counts``, of them and of
    rows, by tensor."""

    def __init__(self, op: dict, counts: Sequence[Sequence[int]]):
        tensors = [counts[index] for index in (*op["inputs"], *op["outputs"])]
        self.op, self.total = op, sum(each[0] for each in tensors)
        self.counts = [count for each in tensors for count in each]

    @property
    def requests(self) -> list[list[int]]:
        return self.op.get("allocations", [])


def _fill(op: dict, own: _Point, points: Sequence[_Point]) -> bool:
    """Adds what was measured; whether it is known for the op's own size."""
    op["cost"] = _cost(own.total, points)
    if points[-1].op.get("cost_estimated"):
        op["cost_estimated"] = True
    # Scratch requests lie apart from each other as they do at the next larger size.
    larger = next((point for point in points if point.total >= own.total), points[-1])
    outputs = [[output for _, output, _ in point.requests] for point in points]
    if any(other != outputs[0] for other in outputs):
        return False
    requests = []
    for position, (most, output, offset) in enumerate(larger.requests):
        wanted = _on_line(own.counts, [(point.counts, point.requests[position][0])
                                       for point in points])
        if wanted is None or not 0 <= wanted <= most:
            return False
        requests.append([wanted, output, offset])
    if requests:
        op["allocations"] = requests
    if "workspace_bytes" in larger.op:
        op["workspace_bytes"] = larger.op["workspace_bytes"]
    return True


def _on_line(counts: Sequence[int], known: Sequence[tuple[Sequence[int], int]]) -> int | None:
    """The value at these counts, by the first of them that all known values are a line over."""
    first, last = known[0][1], known[-1][1]
    if all(value == first for _, value in known):
        return first
    for position, count in enumerate(counts):
        low, high = known[0][0][position], known[-1][0][position]
        if low == high:
            continue
        slope = Fraction(last - first, high - low)
        if all(first + slope * (others[position] - low) == value for others, value in known):
            found = first + slope * (count - low)
            return int(found) if found.denominator == 1 else None
    return None


def _cost(total: int, points: Sequence[_Point]) -> float:
    below = max((point for point in points if point.total <= total), key=_total, default=points[0])
    above = min((point for point in points if point.total >= total), key=_total, default=points[-1])
    if below.total == above.total:
        return above.op["cost"]
    share = (total - below.total) / (above.total - below.total)
    return below.op["cost"] + share * (above.op["cost"] - below.op["cost"])


def _total(point: _Point) -> int:
    return point.total


def _types(document: dict) -> list[str]:
    return [op["type"] for op in document["ops"]]


def _counts(document: dict) -> list[list[int]]:
    """By tensor: its elements, then its rows in each dimension."""
    return [[math.prod(shape), *(math.prod(shape[:dimension] + shape[dimension + 1:])
                                 for dimension in range(len(shape)))]
            for shape in (tensor["shape"] for tensor in document["tensors"])]
