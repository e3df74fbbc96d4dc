"""What a node of a traced graph is: random, pointwise; and how many bytes it makes."""

from __future__ import annotations

import operator

import torch
from torch import fx

from ...joint_graph.primals import placeholders
from ...joint_graph.views import is_view


def is_random(node: fx.Node) -> bool:
    """Whether a second execution of a node would draw other numbers."""
    return is_tagged(node, torch.Tag.nondeterministic_seeded)


def is_pointwise(node: fx.Node) -> bool:
    """Whether each element of what a node makes is computed alone."""
    return (is_tagged(node, torch.Tag.pointwise)
            or getattr(node.target, "_schema", None) is not None
            and node.target._schema.name == "prims::inductor_random")


def is_tagged(node: fx.Node, tag: torch.Tag) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and tag in node.target.tags


def source(node: fx.Node) -> fx.Node:
    """What has to run for a node's value to exist: of one result of several, the op."""
    return node.args[0] if node.target is operator.getitem else node


def taken(node: fx.Node) -> list[fx.Node]:
    """Of a node with several outputs, each that is taken; of another none."""
    return [user for user in node.users if user.target is operator.getitem]


def results(node: fx.Node) -> list[fx.Node]:
    """What exists once a node has run: the node and what is taken of it."""
    return [node, *taken(node)]


def node_bytes(node: fx.Node) -> int:
    """Bytes of what a node makes, as far as it is taken."""
    if node.target is operator.getitem or node.op != "call_function":
        return _tensor_bytes(node.meta.get("val"))
    return sum(_tensor_bytes(part.meta.get("val")) for part in taken(node) or [node])


def _tensor_bytes(value):
    return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0


def computed_again(backward: fx.GraphModule) -> list[fx.Node]:
    """What a backward graph computes from saved values alone, views and constants left out."""
    derived = set(placeholders(backward, "tangents"))
    again = []
    for node in backward.graph.nodes:
        if node.op != "call_function":
            continue
        if derived.intersection(node.all_input_nodes):
            derived.add(node)
        elif node.all_input_nodes and not is_view(node) and node.target is not operator.getitem:
            again.append(node)
    return again
