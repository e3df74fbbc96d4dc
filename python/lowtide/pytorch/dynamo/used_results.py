"""Which results of a graph the loss uses, and which gradients follow from them.

Eager PyTorch leaves the gradient of what only unused results depend on undefined (None), and does
no work for it. A joint graph has a tangent for every result that requires a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from ..joint_graph.primals import placeholders

#: By result that requires a gradient, in order: whether the loss depends on it.
Used = tuple[bool, ...]


def likely_used(results: Sequence[torch.Tensor]) -> Used:
    """Before the first backward pass: a model that returns a number beside other results most
    often returns its loss, of which the others are by-products; the first number is the loss, as in
    the models of Hugging Face. Otherwise all are used."""
    numbers = [position for position, value in enumerate(results) if value.ndim == 0]
    if not numbers or len(numbers) == len(results):
        return (True,) * len(results)
    return tuple(position == numbers[0] for position in range(len(results)))


def detached(graph: fx.GraphModule, positions: Sequence[int]) -> fx.GraphModule:
    """A copy of a traced graph in which nothing is differentiated through these outputs."""
    copy = fx.Graph()
    results = list(copy.graph_copy(graph.graph, {}))
    for position in positions:
        results[position] = copy.call_method("detach", (results[position],))
    copy.output(tuple(results))
    return fx.GraphModule(graph, copy)


def tangents_of_gradients(joint: fx.GraphModule, num_fwd_outputs: int) -> list[frozenset[int]]:
    """By primal: the positions of the tangents that its gradient depends on."""
    depends = {node: frozenset({position})
               for position, node in enumerate(placeholders(joint, "tangents"))}
    for node in joint.graph.nodes:
        if node.op != "placeholder":
            depends[node] = frozenset().union(
                *(depends.get(source, frozenset()) for source in node.all_input_nodes))
    gradients = joint.graph.output_node().args[0][num_fwd_outputs:]
    return [depends.get(gradient, frozenset()) if isinstance(gradient, fx.Node) else frozenset()
            for gradient in gradients]


def without_unused(gradients: Sequence, reached: Sequence[frozenset[int]],
                   used: Sequence[bool]) -> list:
    """The gradients by primal; None where none of the ``used`` tangents reaches."""
    tangents = {position for position, is_used in enumerate(used) if is_used}
    return [gradient if not reaching or reaching & tangents else None
            for gradient, reaching in zip(gradients, reached)]
