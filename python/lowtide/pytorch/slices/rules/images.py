"""Convolutions, pooling and resizing: each image of a batch apart."""

from __future__ import annotations

import torch
from torch import fx

from .cut import (
    Cut,
    KnownRows,
    Rows,
    Slicewise,
    of_each_result,
    resized,
    shape,
    with_argument,
)

_aten = torch.ops.aten
_BATCHED_CONVOLUTION = 3  # dimensions at least


def _convolution(node: fx.Node, known: KnownRows) -> Cut | None:
    source, weight = node.args[:2]
    if known.rows(source) != Rows(0) or known.rows(weight) or not _is_batched(source):
        return None
    return Cut({source: Rows(0)}, Rows(0))


def _convolution_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, input, weight, ...) -> (of the input, of the weight, of the bias)"""
    gradient, source = node.args[:2]
    if Rows(0) not in (known.rows(source), known.rows(gradient)) or not _is_batched(source):
        return None
    return Cut({gradient: Rows(0), source: Rows(0)}, [Rows(0), Slicewise.TOTAL, Slicewise.TOTAL])


def _is_batched(source: fx.Node) -> bool:
    return len(shape(source)) >= _BATCHED_CONVOLUTION


def _planes(within: int, tensors: int = 1, sizes: int | None = None):
    """Computes in the last ``within`` dimensions. ``tensors``: how many of the first arguments
    have the rows; ``sizes``: the position of the input's sizes."""
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        read = node.args[:tensors]
        rows = next((known.rows(tensor) for tensor in read if known.rows(tensor)), None)
        if rows is None or rows.dim >= len(shape(read[0])) - within:
            return None
        if not all(known.has(tensor, rows) for tensor in read):
            return None
        arguments = None if sizes is None else (
            lambda count: with_argument(node, sizes, resized(node.args[sizes], rows, count)))
        return Cut(dict.fromkeys(read, rows), of_each_result(node, rows), arguments)

    return rule


def _max_pool_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, input, ..., indices)"""
    found = _planes(2, tensors=2)(node, known)
    if found is None:
        return None
    rows = found.reads[node.args[0]]
    return Cut({**found.reads, node.args[-1]: rows}, rows)


RULES = {
    _aten.convolution.default: _convolution,
    _aten.convolution_backward.default: _convolution_backward,
    _aten.max_pool2d_with_indices.default: _planes(2),
    _aten.max_pool2d_with_indices_backward.default: _max_pool_backward,
    _aten.avg_pool2d.default: _planes(2),
    _aten.avg_pool2d_backward.default: _planes(2, tensors=2),
    _aten._adaptive_avg_pool2d.default: _planes(2),
    _aten._adaptive_avg_pool2d_backward.default: _planes(2, tensors=2),
    _aten.reflection_pad2d_backward.default: _planes(2, tensors=2),
    _aten.replication_pad2d_backward.default: _planes(2, tensors=2),
    _aten.upsample_nearest2d.default: _planes(2),
    _aten.upsample_nearest2d_backward.default: _planes(2, sizes=2),
    _aten.upsample_bilinear2d.default: _planes(2),
    _aten.upsample_bilinear2d_backward.default: _planes(2, sizes=2),
}
