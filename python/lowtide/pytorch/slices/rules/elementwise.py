"""Ops whose results at an index depend on the inputs at that index alone, broadcast."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, of_each_result, shape

_aten = torch.ops.aten

#: Those that PyTorch does not tag as such.
_UNTAGGED = frozenset(f"aten::{name}" for name in (
    "_to_copy", "detach", "alias", "lift_fresh_copy", "native_dropout", "hardtanh_backward",
    "leaky_relu_backward", "log_sigmoid_forward", "log_sigmoid_backward", "elu_backward",
    "special_erf", "masked_fill.Tensor", "zeros_like", "ones_like", "full_like", "empty_like",
    "rand_like", "randn_like", "fill.Scalar", "softplus_backward", "hardswish_backward",
    "hardsigmoid_backward", "logit_backward", "_prelu_kernel", "bernoulli.p"))


def is_elementwise(target: object) -> bool:
    if not isinstance(target, torch._ops.OpOverload) or _reduces(target):
        return False
    return target.name() in _UNTAGGED or torch.Tag.pointwise in target.tags


def _reduces(target) -> bool:
    return any(argument.name == "reduction" for argument in target._schema.arguments)


def cut(node: fx.Node, known: KnownRows) -> Cut | None:
    rank = len(shape(node))
    found = {_aligned(known.rows(read), read, rank) for read in node.all_input_nodes
             if known.rows(read)}
    if len(found) != 1:
        return None
    rows = found.pop()
    reads = {read: own for read in node.all_input_nodes
             if known.has(read, own := rows.at(rows.dim - rank + len(shape(read))))}
    return Cut(reads, of_each_result(node, rows))


def _aligned(rows: Rows, read: fx.Node, rank: int) -> Rows:
    return rows.at(rows.dim + rank - len(shape(read)))
