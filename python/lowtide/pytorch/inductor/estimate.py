"""What one execution of a node of an Inductor graph costs: a roofline over fused groups.

Only ratios matter to a planner. An op takes the longer of computing its floating-point operations
and moving its bytes, at the rates below, whose ratio is that of common processors and accelerators.
Inductor fuses pointwise ops with the ops that read them, so a value that goes from a pointwise op
to its readers inside one kernel is neither written nor read: only what crosses the edge of such a
group is counted. Bytes in memory are not estimated that way: every value is priced with its own
storage, which is too much for what stays inside a kernel, and kernels' scratch is not known. Both
errors show in the measured peak, by which the budget is corrected.
"""

from __future__ import annotations

import json
import operator

import torch
from torch import fx
from torch.utils.flop_counter import flop_registry

from ... import Graph
from ..capture import Captured
from .split import is_view

FLOPS_PER_US = 1e5
BYTES_PER_US = 1e4


def priced(captured: Captured) -> Graph:
    """The captured graph with estimated costs, for planning what Inductor is to run.

    An op that draws random numbers runs once: compiled code cannot draw the same ones again. (What
    Inductor computes from a seed is no such op, only the seed is.)
    """
    document = json.loads(captured.graph.format())
    for op, node in zip(document["ops"], captured.nodes, strict=True):
        if node is not None:
            op["cost"], op["cost_estimated"] = estimate(node), True
        if op.get("random", False):
            op["recomputable"] = False
    return Graph.parse(json.dumps(document))


def estimate(node: fx.Node) -> float:
    """The cost of one execution of a call_function node, in microseconds.

    Needs ``meta["val"]`` of the node and of what it reads. A view costs nothing.
    """
    if is_view(node):
        return 0.0
    moved = sum(_bytes(read) for read in node.all_input_nodes if not _fused(read, node))
    if not _stays_in_kernel(node):
        moved += _bytes(node)
    return max(_flops(node) / FLOPS_PER_US, moved / BYTES_PER_US)


def _stays_in_kernel(node):
    return bool(node.users) and all(_fused(node, user) for user in node.users)


def _fused(made: fx.Node, reader: fx.Node) -> bool:
    """Whether Inductor computes ``made`` inside the kernel of a reader.

    That is so for a pointwise op on the same side of the boundary whose reader is pointwise or
    reduces.
    """
    return (_pointwise(made) and (_pointwise(reader) or _reduces(reader))
            and _side(made) == _side(reader))


def _side(node):
    return node.meta.get("partitioner_tag")


def _pointwise(node):
    return _tagged(node, torch.Tag.pointwise) or _named(node, "prims::inductor_random")


def _reduces(node):
    return _tagged(node, torch.Tag.reduction)


def _tagged(node, tag):
    return isinstance(node.target, torch._ops.OpOverload) and tag in node.target.tags


def _named(node, name):
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name == name


def _flops(node):
    formula = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return 0
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda read: read.meta["val"])
    return formula(*args, **kwargs, out_val=node.meta["val"])


def _bytes(node):
    if node.target is operator.getitem or node.op != "call_function":
        return _tensor_bytes(node.meta.get("val"))
    taken = [user for user in node.users if user.target is operator.getitem]
    return sum(_tensor_bytes(n.meta.get("val")) for n in taken or [node])


def _tensor_bytes(value):
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
