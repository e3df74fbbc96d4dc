"""What the inputs of a traced graph are to the module: parameters, buffers or its arguments."""

from __future__ import annotations

import itertools
import re

import torch
from torch._functorch._aot_autograd import descriptors

from ..joint_graph.primals import placeholders

#: Of the meta of a graph's inputs: role and name, as of ``describe_inputs``.
DESCRIBED = "lowtide_input"

#: Dynamo names an input by how it gets there: L['self']._modules['conv']._parameters['weight'].
_PART = re.compile(r"\['(?P<key>[^']*)'\]|\[(?P<index>\d+)\]|\.(?P<attribute>\w+)")
#: What a model's own code and the function that ``wrap`` traces call the model.
_MODEL = ("self", "model")
_PLUMBING = {"_modules", "_parameters", "_buffers", "__closure__", "cell_contents"}


def describe_inputs(module: torch.fx.GraphModule, inputs,
                    model: torch.nn.Module | None = None) -> list[tuple[str, str]]:
    """Role and name of each input of the graph that Dynamo gives a backend.

    The role is ``parameter`` (it is trained), ``buffer`` (it is the module's and is not) or
    ``input``; the name is that of ``named_parameters()`` or of the argument. What is found out the
    first time is kept with the graph: Dynamo forgets where inputs came from. ``model``: whose names
    count, as Dynamo has those of the function that it traces: behind a graph break within a module,
    that is its own forward.
    """
    nodes = module.graph.find_nodes(op="placeholder")
    named = {} if model is None else {
        id(value): name for name, value in itertools.chain(model.named_buffers(),
                                                           model.named_parameters())}
    for node, value in zip(nodes, inputs, strict=True):
        if DESCRIBED not in node.meta:
            role, name = _describe(node, value)
            node.meta[DESCRIBED] = role, named.get(id(value), name)
    return [node.meta[DESCRIBED] for node in nodes]


def describe_primals(joint: torch.fx.GraphModule, inputs: list[tuple[str, str]]):
    """Roles and names of the primals of a joint graph made from a graph with these inputs."""
    described = [_of_primal(node, inputs) for node in placeholders(joint, "primals")]
    return [role for role, _ in described], [name for _, name in described]


def _of_primal(node, inputs):
    what = node.meta["desc"]
    if isinstance(what, descriptors.PlainAOTInput):
        return inputs[what.idx]
    return "input", node.target


def _describe(node, value):
    source = getattr(node.meta.get("grapharg"), "source", None)
    text = node.target if source is None else source.name
    if isinstance(value, torch.nn.Parameter) or "_parameters['" in text:
        role = "parameter" if value.requires_grad else "buffer"
    else:
        role = "buffer" if "_buffers['" in text else "input"
    return role, _short_name(text)


def _short_name(text):
    parts = [next(filter(None, match.groups())) for match in _PART.finditer(text)]
    parts = [part for part in parts if part not in _PLUMBING]
    if len(parts) > 1 and parts[0] in _MODEL:
        parts = parts[1:]
    return ".".join(parts) or text
