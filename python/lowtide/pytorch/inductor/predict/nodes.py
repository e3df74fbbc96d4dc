"""What a node of a traced graph is: random, pointwise; and how many bytes it makes."""

from __future__ import annotations

import operator

import torch
from torch import fx

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


def computed_again(halves: tuple[fx.GraphModule, fx.GraphModule]) -> list[fx.Node]:
    """What the backward graph computes though the forward graph did, or itself before: views and
    constants left out. A value is known by the op that makes it and by what that reads; what the
    forward saves has one name in both."""
    forward, backward = halves
    values = _Values()
    before = set(map(values.of, forward.graph.nodes))
    again = []
    for node in backward.graph.nodes:
        value = values.of(node)
        if node.op != "call_function" or is_view(node) or node.target is operator.getitem:
            continue
        if value in before and node.all_input_nodes:
            again.append(node)
        before.add(value)
    return again


class _Values:
    """Numbers of values: equal ones where the same op makes them of the same values."""

    def __init__(self) -> None:
        self._by_text: dict[str, int] = {}
        self._by_name: dict[str, int] = {}
        self._by_node: dict[fx.Node, int] = {}

    def of(self, node: fx.Node) -> int:
        """Of a node whose inputs were asked for before."""
        if node not in self._by_node:
            found = self._new(node)
            self._by_node[node] = found
            self._by_name.setdefault(node.name, found)
        return self._by_node[node]

    def _new(self, node: fx.Node) -> int:
        if node.op == "placeholder" and node.name in self._by_name:
            return self._by_name[node.name]
        if node.op != "call_function" or is_random(node):
            return self._by_text.setdefault(f"{node.op} {node.target} {node.name}",
                                            len(self._by_text))
        read = fx.map_arg((node.args, node.kwargs), lambda source: f"%{self._by_node[source]}")
        return self._by_text.setdefault(f"{node.target} {read}", len(self._by_text))
