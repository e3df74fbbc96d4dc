"""Which nodes of a joint graph run before the forward outputs are handed over."""

from __future__ import annotations

import torch

from .primals import placeholders


def split(joint: torch.fx.GraphModule, num_fwd_outputs: int):
    """The nodes of the forward pass and the rest, each in the order of the joint graph.

    To the forward pass belong what its outputs depend on and all that is listed before the first
    node that depends on a tangent. Placeholders and the output are in neither.
    """
    returned = joint.graph.output_node().args[0][:num_fwd_outputs]
    needed = _ancestors([node for node in returned if isinstance(node, torch.fx.Node)])
    late = set(placeholders(joint, "tangents"))
    forward, backward = [], []
    begun = False
    for node in joint.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        begun = begun or any(source in late for source in node.all_input_nodes)
        (backward if begun and node not in needed else forward).append(node)
    return forward, backward


def _ancestors(nodes):
    found = set()
    open_nodes = list(nodes)
    while open_nodes:
        node = open_nodes.pop()
        if node not in found:
            found.add(node)
            open_nodes += node.all_input_nodes
    return found
