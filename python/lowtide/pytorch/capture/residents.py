"""What is there before a step: its primals, and the tensors that its code holds."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch

from ... import InputError
from ..joint_graph.primals import placeholders
from .captured import Output
from .document import Document
from .user_line import at_user_line

_NOTHING = Output()


def add_primals(document: Document, joint: torch.fx.GraphModule, roles: Sequence[str],
                names: Sequence[str]) -> None:
    """Makes those that are used residents; roles and names are by primal.

    Raises InputError for an input that is neither primal nor tangent.
    """
    primals = placeholders(joint, "primals")
    known = {*primals, *placeholders(joint, "tangents")}
    for node in joint.graph.find_nodes(op="placeholder"):
        if node not in known and node.users:
            raise InputError(f"The joint graph has an input {node.target}, which is neither a "
                             f"primal nor a tangent; such graphs cannot be planned.")
    for node, role, name in zip(primals, roles, names, strict=True):
        value = node.meta.get("val")
        if not node.users:
            document.values[node] = _NOTHING
        elif isinstance(value, torch.Tensor):
            document.values[node] = Output(
                document.tensors.add_resident(node, value, role, name))
        else:
            document.values[node] = Output(literal=value)


class Constants:
    """The tensors that the code of a joint graph holds; each becomes a resident once."""

    def __init__(self, joint: torch.fx.GraphModule):
        self._joint = joint
        self._found: dict[int, tuple[int, torch.Tensor]] = {}  # by the tensor's id()

    def add(self, document: Document, node: torch.fx.Node) -> None:
        """Raises InputError when the node gets a graph: the body of an op."""
        tensor = operator.attrgetter(node.target)(self._joint)
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"The graph contains a graph, {node.target}, of an op with a body "
                             f"(such as cond); this cannot be planned{at_user_line(node)}.")
        if id(tensor) not in self._found:
            index = document.tensors.add_resident(node, tensor, "constant", node.target)
            self._found[id(tensor)] = index, tensor
        document.values[node] = Output(self._found[id(tensor)][0])

    @property
    def found(self) -> tuple[tuple[int, torch.Tensor], ...]:
        """Residents and their values."""
        return tuple(self._found.values())
