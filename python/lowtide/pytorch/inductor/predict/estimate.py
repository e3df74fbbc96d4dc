"""Estimates the cost of one execution of a node in compiled code: a roofline over fused groups.

Inductor fuses pointwise ops with the ops that read them, so a value that goes from a pointwise op
to its readers inside one kernel is neither written nor read: only what crosses the edge of such a
group is counted, and the arithmetic. Products, convolutions and attention are measured, with their
scratch memory (``products.py``).
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import torch
from torch import fx

from ...joint_graph.views import is_view
from .nodes import is_pointwise, is_tagged, node_bytes
from .products import kernel_cost
from .rates import microseconds, pointwise_operations


def estimate(node: fx.Node, materialized: Set[fx.Node] = frozenset()) -> float:
    """The cost of one execution of a call_function node, in microseconds.

    Needs ``meta["val"]`` of the node and of what it reads. A view costs nothing.
    ``materialized``: as in ``materialized.py``.
    """
    if is_view(node):
        return 0.0
    moved = sum(node_bytes(read) for read in node.all_input_nodes
                if not _fused(read, node, materialized))
    if not is_inlined(node, materialized):
        moved += node_bytes(node)
    product = kernel_cost(node).microseconds
    return product or microseconds(0, moved, pointwise_operations(node))


def group_cost(nodes: Sequence[fx.Node]) -> float:
    """Of one kernel that computes ``nodes`` and writes the last of them, in microseconds."""
    made, inside = nodes[-1], set(nodes)
    if is_view(made):
        return 0.0
    read = {source for node in nodes for source in node.all_input_nodes} - inside
    moved = node_bytes(made) + sum(map(node_bytes, read))
    product = kernel_cost(made).microseconds
    return product or microseconds(0, moved, sum(map(pointwise_operations, nodes)))


def is_inlined(node: fx.Node, materialized: Set[fx.Node]) -> bool:
    """Whether Inductor computes a value inside the kernels of all that read it, so that it never
    lies in memory."""
    return bool(node.users) and all(_fused(node, user, materialized) for user in node.users)


def _fused(made: fx.Node, reader: fx.Node, materialized: Set[fx.Node]) -> bool:
    """Whether Inductor computes ``made`` inside the kernel of a reader.

    That is so for a pointwise op on the same side of the boundary whose reader, which may read a
    view of it, is pointwise or reduces.
    """
    if made in materialized or not is_pointwise(made) or _side(made) != _side(reader):
        return False
    if reader.op == "call_function" and is_view(reader):
        return bool(reader.users) and all(_fused(made, user, materialized) for user in reader.users)
    return is_pointwise(reader) or _reduces(reader)


def _side(node):
    return node.meta.get("partitioner_tag")


def _reduces(node):
    return is_tagged(node, torch.Tag.reduction)
