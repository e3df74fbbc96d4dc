"""The forward and the backward graph that AOTAutograd is given: each one call of a region."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import torch
from torch import fx


def forward_graph(run: Callable, primals: Sequence[fx.Node], returned: Sequence,
                 saved: Sequence[fx.Node], ticket: torch.Tensor) -> fx.GraphModule:
    """A graph of one call, ``run(*primals) -> (*returned, ticket)``.

    Its outputs are those of the joint graph and what the backward half is given: the primals and
    results ``saved``, so that autograd notices when they are changed in between, and the ticket
    (here a fake tensor of its type).
    """
    graph = fx.Graph()
    copies = {node: _placeholder(graph, node) for node in primals}
    call = graph.call_function(run, tuple(copies.values()))
    outputs = []
    for index, node in enumerate(returned):
        is_node = isinstance(node, fx.Node)
        outputs.append(_result(graph, call, index, node.meta["val"]) if is_node else node)
        if is_node:
            copies.setdefault(node, outputs[-1])
    outputs += [copies[node] for node in saved]
    outputs.append(_result(graph, call, len(returned), ticket))
    return _module(graph, outputs)


def backward_graph(run: Callable, saved: Sequence[fx.Node], ticket: torch.Tensor,
                  tangents: Sequence[fx.Node], derived: Sequence) -> fx.GraphModule:
    """A graph of one call, ``run(ticket, *saved, *tangents) -> derived``, a gradient for each
    primal."""
    graph = fx.Graph()
    kept = [_placeholder(graph, node) for node in saved]
    stub = graph.placeholder("ticket")
    stub.meta["val"] = ticket
    given = [_placeholder(graph, node) for node in tangents]
    call = graph.call_function(run, (stub, *kept, *given))
    return _module(graph, [_result(graph, call, index, node.meta["val"])
                           if isinstance(node, fx.Node) else node
                           for index, node in enumerate(derived)])


def _placeholder(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copy = graph.placeholder(node.name)
    copy.meta = dict(node.meta)
    return copy


def _result(graph: fx.Graph, call: fx.Node, index: int, value) -> fx.Node:
    result = graph.call_function(operator.getitem, (call, index))
    result.meta["val"] = value
    return result


def _module(graph: fx.Graph, outputs: Sequence) -> fx.GraphModule:
    graph.output(tuple(outputs)).meta["desc"] = [None] * len(outputs)
    return fx.GraphModule(torch.nn.Module(), graph)
