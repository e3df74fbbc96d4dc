"""Values that Inductor writes to memory though kernels could compute them inside.

A pointwise value goes into the kernels that read it, and so does what it is made of. In a chain of
them, such as a sum that passes through all layers or the gradient of a recurrent state, the last
kernel would read what the whole chain is made of, and each kernel would compute it all again.
Inductor counts what a value reads on the way and writes one that reads too much.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._inductor import config

from ...joint_graph.views import is_view
from .nodes import is_pointwise


def materialized(graph: fx.Graph) -> frozenset[fx.Node]:
    """Pointwise nodes of a graph that read too much to be computed again by each kernel."""
    found: set[fx.Node] = set()
    reads: dict[fx.Node, frozenset[fx.Node]] = {}
    for node in graph.nodes:
        if node.op != "call_function" or not is_pointwise(node):
            continue
        sources = map(_base, node.all_input_nodes)
        reads[node] = frozenset().union(*(reads.get(source, {source}) for source in sources))
        if _reads_too_much(node, len(reads[node])):
            found.add(node)
            del reads[node]
    return frozenset(found)


def _reads_too_much(node: fx.Node, count: int) -> bool:
    """The conditions of ``torch._inductor.ir.StorageBox``."""
    return count > _most_reads(node) or (
        count > config.realize_reads_threshold and _is_shared(node))


def _most_reads(node: fx.Node) -> int:
    if config.realize_acc_reads_threshold is not None:
        return config.realize_acc_reads_threshold
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor) and value.device.type == "cpu":
        return config.realize_cpu_acc_reads_threshold
    return config._realize_acc_reads_threshold_default


def _is_shared(node: fx.Node) -> bool:
    """Whether several nodes read a value, itself or a view of it."""
    return len(node.users) > 1 or any(map(_is_shared, filter(_is_view_op, node.users)))


def _base(node: fx.Node) -> fx.Node:
    """Where a value lies: of a view, what it is a view of."""
    while _is_view_op(node):
        node = node.all_input_nodes[0]
    return node


def _is_view_op(node: fx.Node) -> bool:
    return node.op == "call_function" and is_view(node)
