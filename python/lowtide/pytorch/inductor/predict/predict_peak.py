"""Predicts the time and the peak of a split without lowering it, in a hundredth of the time.

Inductor computes a pointwise value inside the kernels that read it, unless too many do. What is
left lies in memory from where it is made to where the last kernel reads it, itself or through such
values. In which order Inductor runs a half, and what it fuses over greater distances, is not
predicted; how far a split that was lowered is from this corrects what is predicted of others.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import torch
from torch import fx

from ...joint_graph.views import is_view
from .accumulated import with_accumulation
from .estimate import estimate, is_inlined
from .materialized import materialized
from .nodes import is_pointwise, node_bytes, taken
from .products import kernel_cost


@dataclass(frozen=True)
class Prediction:
    """Bytes above parameters, buffers and inputs, and a time that only compares."""

    peak_bytes: int
    microseconds: float


def predict(halves: tuple[fx.GraphModule, fx.GraphModule]) -> Prediction:
    """Of the forward and the backward graph of a step."""
    halves = tuple(map(with_accumulation, halves))
    given = {node.name for node in halves[0].graph.find_nodes(op="placeholder")}
    stored = frozenset().union(*(materialized(half.graph) for half in halves))
    ops = (node for half in halves for node in half.graph.nodes
           if node.op == "call_function")
    return Prediction(max(_peak_bytes(half, given, stored) for half in halves),
                    sum(estimate(node, stored) for node in ops))


def _peak_bytes(half, resident: set[str], stored: Set[fx.Node]) -> int:
    """``resident``: names of inputs that lie in memory anyway; ``stored``: what kernels could
    compute inside and do not."""
    nodes = list(half.graph.nodes)
    last = _last_uses(nodes, stored)
    live = peak = 0
    ending: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        size = _bytes_in_memory(node, resident, stored)
        ended = ending.pop(index, [])
        live += size
        scratch = kernel_cost(node).scratch_bytes if node.op == "call_function" else 0
        over = size if is_pointwise(node) and size in ended else 0
        peak = max(peak, live + scratch - over)
        if size:
            ending.setdefault(max(last.get(node, index), index), []).append(size)
        live -= sum(ended) + sum(ending.pop(index, []))
    return peak


def _bytes_in_memory(node, resident, stored):
    if node.op == "placeholder":
        value = node.meta.get("val")
        return 0 if node.name in resident or not isinstance(value, torch.Tensor) else value.nbytes
    if node.op != "call_function" or _is_elsewhere(node, stored):
        return 0
    return node_bytes(node)


def _is_elsewhere(node, stored):
    """Whether a node's values lie in another's storage, are in its parts, or are nowhere."""
    return is_view(node) or bool(taken(node)) or is_inlined(node, stored)


def _last_uses(nodes, stored) -> dict[fx.Node, int]:
    """Where the last kernel reads each value: through what is inlined, and views."""
    last: dict[fx.Node, int] = {}
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        is_passed = node.op == "call_function" and (is_view(node) or is_inlined(node, stored))
        end = last.get(node, index) if is_passed else index
        for read in node.all_input_nodes:
            last[read] = max(last.get(read, index), end)
    return last
