"""The document of a training step as far as it is written."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .captured import Output
from .tensors import Tensors


@dataclasses.dataclass
class Document:
    """Tensors and ops as the format has them, and what stands for each FX node.

    ``values`` holds by node an Output, or a list of them for an op with several results.
    """

    tensors: Tensors = dataclasses.field(default_factory=Tensors)
    ops: list[dict] = dataclasses.field(default_factory=list)
    nodes: list[torch.fx.Node | None] = dataclasses.field(default_factory=list)  # by op
    values: dict[torch.fx.Node, Any] = dataclasses.field(default_factory=dict)

    @property
    def records(self) -> list[dict]:
        return self.tensors.records

    def storage(self, tensor: int) -> int:
        """The tensor that owns the bytes."""
        return self.records[tensor].get("alias_of", tensor)

    def output(self, result: object) -> Output:
        """What stands for something that a graph returns: a node or a literal."""
        return self.values[result] if isinstance(result, torch.fx.Node) else Output(literal=result)

    def add_op(self, op: dict, node: torch.fx.Node | None) -> None:
        self.ops.append(op)
        self.nodes.append(node)

    def insert_op(self, index: int, op: dict) -> None:
        """One that nobody traced, before the op that is there now."""
        self.ops.insert(index, op)
        self.nodes.insert(index, None)

    def add_results(self, op: dict, node: torch.fx.Node, results: object) -> object:
        """Gives the op its outputs; returns what stands for the node.

        ``results``: fake tensors, or lists of them and of other things, which become literals.
        """
        leaves, spec = pytree.tree_flatten(results)
        count = sum(isinstance(leaf, torch.Tensor) for leaf in leaves)
        outputs = []
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                outputs.append(Output(literal=leaf))
                continue
            place = f".{len(op['outputs'])}" if count > 1 else ""
            index = self.tensors.add_value(node, leaf, op["name"] + place, op)
            op["outputs"].append(index)
            outputs.append(Output(index))
        return pytree.tree_unflatten(outputs, spec)
