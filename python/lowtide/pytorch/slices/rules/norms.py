"""Normalizations: of each row apart, but for batch norm in training, which mixes the rows."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, Slicewise, Whole, shape, with_argument

_aten = torch.ops.aten


def _layer_norm(node: fx.Node, known: KnownRows) -> Cut | None:
    """(input, normalized shape, ...) -> (output, mean, deviation)"""
    source, normalized = node.args[:2]
    rows = known.rows(source)
    if rows is None or rows.dim >= len(shape(source)) - len(normalized):
        return None
    return Cut({source: rows}, [rows] * 3)


def _layer_norm_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, input, normalized shape, mean, deviation, ...)"""
    gradient, source, normalized, mean, deviation = node.args[:5]
    rows = known.rows(source) or known.rows(gradient)
    if rows is None or rows.dim >= len(shape(source)) - len(normalized):
        return None
    return Cut(dict.fromkeys((gradient, source, mean, deviation), rows),
               [rows, Slicewise.TOTAL, Slicewise.TOTAL])


def _group_norm(node: fx.Node, known: KnownRows) -> Cut | None:
    """(input, weight, bias, N, ...)"""
    source = node.args[0]
    if known.rows(source) != Rows(0):
        return None
    return Cut({source: Rows(0)}, [Rows(0)] * 3,
               arguments=lambda count: with_argument(node, 3, count))


def _group_norm_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, input, mean, deviation, weight, N, ...)"""
    read = node.args[:4]
    if known.rows(read[1]) != Rows(0):
        return None
    return Cut(dict.fromkeys(read, Rows(0)), [Rows(0), Slicewise.TOTAL, Slicewise.TOTAL],
               arguments=lambda count: with_argument(node, 5, count))


def _batch_norm(node: fx.Node, known: KnownRows) -> Cut | None:
    """(input, ...) -> (output, ...), by statistics that are given."""
    source = node.args[0]
    if known.rows(source) != Rows(0):
        return None
    return Cut({source: Rows(0)}, [Rows(0), *[Slicewise.SAME] * (len(node.meta["val"]) - 1)])


def _batch_norm_in_training(node: fx.Node, known: KnownRows) -> Whole | None:
    return None if known.rows(node.args[0]) != Rows(0) else Whole([Rows(0), *[None] * 4])


def _batch_norm_backward(node: fx.Node, known: KnownRows) -> Cut | Whole | None:
    """(gradient, input, weight, running mean and variance, mean and deviation, in training, ...)"""
    gradient, source, in_training = node.args[0], node.args[1], node.args[7]
    if known.rows(source) != Rows(0):
        return None
    if in_training:
        return Whole([Rows(0), None, None])
    return Cut({gradient: Rows(0), source: Rows(0)}, [Rows(0), Slicewise.TOTAL, Slicewise.TOTAL])


RULES = {
    _aten.native_layer_norm.default: _layer_norm,
    _aten.native_layer_norm_backward.default: _layer_norm_backward,
    _aten.native_group_norm.default: _group_norm,
    _aten.native_group_norm_backward.default: _group_norm_backward,
    _aten._native_batch_norm_legit_functional.default: _batch_norm_in_training,
    _aten._native_batch_norm_legit_no_training.default: _batch_norm,
    _aten.native_batch_norm_backward.default: _batch_norm_backward,
}
