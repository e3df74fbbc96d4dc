"""Estimated costs for a captured graph (Williams, Waterman, Patterson, CACM 2009)."""

from __future__ import annotations

import json
import math

from ... import Graph
from .arithmetic import flops
from .captured import BOUNDARY, Captured
from .dtypes import NAMES

# Those of a few cores of a server, the defaults of `lowtide graph` (src/cost/roofline.h).
_FLOPS_PER_SECOND = 2e11
_BYTES_PER_SECOND = 2e10
_SECONDS_PER_OP = 2e-6
_SECONDS_PER_VIEW = 5e-7  # moves no bytes
_ITEM_BYTES = {name: dtype.itemsize for dtype, name in NAMES.items()}


def priced(captured: Captured) -> Graph:
    """The graph with an estimate, marked as such, as the cost of each op, in microseconds.

    The larger of arithmetic and traffic, plus dispatch. Arithmetic is counted as
    ``torch.utils.flop_counter`` does, and as one operation per element of the results elsewhere.
    """
    document = json.loads(captured.graph.format())
    for op, node in zip(document["ops"], captured.nodes):
        op["cost_estimated"] = True
        if op["type"] != BOUNDARY:
            op["cost"] = 1e6 * _seconds(op, node, document["tensors"])
    return Graph.parse(json.dumps(document), document["name"])


def _seconds(op, node, tensors):
    results = [tensors[index] for index in op["outputs"]]
    if all("alias_of" in result for result in results) and not op.get("mutates"):
        return _SECONDS_PER_VIEW
    moved = sum(_traffic(tensors[index]) for index in (*op["inputs"], *op["outputs"]))
    arithmetic = flops(node)
    if arithmetic is None:
        arithmetic = sum(math.prod(result["shape"]) for result in results)
    return max(arithmetic / _FLOPS_PER_SECOND, moved / _BYTES_PER_SECOND) + _SECONDS_PER_OP


def _traffic(tensor):
    """A view moves the bytes that it shows."""
    if "alias_of" in tensor:
        return math.prod(tensor["shape"]) * _ITEM_BYTES[tensor["dtype"]]
    return tensor["bytes"]
