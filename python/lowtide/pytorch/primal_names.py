"""What the inputs of a graph of dynamo are to the user's module."""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import fx

_STEPS = re.compile(r"\['(\w+)'\]|\.(\w+)|\[(\d+)\]")
_CONTAINERS = {"_modules", "_parameters", "_buffers", "self", "L", "G"}


def primal_names(graph: fx.GraphModule) -> list[str]:
    """By placeholder: ``layer1.0.weight`` for a parameter, the name of the argument for an input."""
    return [_name(node) for node in graph.graph.find_nodes(op="placeholder")]


def primal_roles(graph: fx.GraphModule, inputs: Sequence) -> list[str]:
    """By placeholder: ``parameter``, ``buffer`` or ``input``, for roles of a lowtide graph."""
    return [_role(_source(node), value)
            for node, value in zip(graph.graph.find_nodes(op="placeholder"), inputs)]


def _source(node: fx.Node) -> str:
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    return source.name if isinstance(getattr(source, "name", None), str) else node.target


def _name(node: fx.Node) -> str:
    steps = [next(filter(None, match.groups())) for match in _STEPS.finditer(_source(node))]
    return ".".join(step for step in steps if step not in _CONTAINERS) or node.target


def _role(source: str, value) -> str:
    if isinstance(value, torch.nn.Parameter) or "_parameters" in source:
        return "parameter"
    return "buffer" if "_buffers" in source else "input"
