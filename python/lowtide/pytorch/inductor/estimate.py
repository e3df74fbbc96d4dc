"""What one execution of a node of an Inductor graph costs: a roofline over fused groups.

Inductor fuses pointwise ops with the ops that read them, so a value that goes from a pointwise op
to its readers inside one kernel is neither written nor read: only what crosses the edge of such a
group is counted, and the arithmetic. Products, convolutions and attention are measured, with their
scratch memory (``products.py``). Bytes in memory are not estimated that way: every value is priced
with its own storage, which is too much for what stays inside a kernel. What is foreseen of a plan,
what the lowered graph and what the measured step say correct that (``foresight.py``,
``lowering.py``, ``fit.py``).
"""

from __future__ import annotations

import json

import torch
from torch import fx

from ... import Graph
from ..capture import Captured
from .nodes import is_view, node_bytes
from .products import kernel_cost
from .rates import microseconds, pointwise_operations


def priced(captured: Captured) -> Graph:
    """The captured graph with estimated costs, for planning what Inductor is to run.

    An op that draws random numbers runs once: compiled code cannot draw the same ones again. (What
    Inductor computes from a seed is no such op, only the seed is.)
    """
    document = json.loads(captured.graph.format())
    for op, node in zip(document["ops"], captured.nodes, strict=True):
        if node is not None:
            op["cost"], op["cost_estimated"] = estimate(node), True
            op["workspace_bytes"] = kernel_cost(node).scratch_bytes
        if op.get("random", False):
            op["recomputable"] = False
    return Graph.parse(json.dumps(document))


def estimate(node: fx.Node) -> float:
    """The cost of one execution of a call_function node, in microseconds.

    Needs ``meta["val"]`` of the node and of what it reads. A view costs nothing.
    """
    if is_view(node):
        return 0.0
    moved = sum(node_bytes(read) for read in node.all_input_nodes if not _fused(read, node))
    if not is_inlined(node):
        moved += node_bytes(node)
    product = kernel_cost(node).microseconds
    return product or microseconds(0, moved, pointwise_operations(node))


def is_inlined(node: fx.Node) -> bool:
    """Whether Inductor computes a value inside the kernels of all that read it, so that it never
    lies in memory."""
    return bool(node.users) and all(_fused(node, user) for user in node.users)


def _fused(made: fx.Node, reader: fx.Node) -> bool:
    """Whether Inductor computes ``made`` inside the kernel of a reader.

    That is so for a pointwise op on the same side of the boundary whose reader, which may read a
    view of it, is pointwise or reduces.
    """
    if not _pointwise(made) or _side(made) != _side(reader):
        return False
    if reader.op == "call_function" and is_view(reader):
        return bool(reader.users) and all(_fused(made, user) for user in reader.users)
    return _pointwise(reader) or _reduces(reader)


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
