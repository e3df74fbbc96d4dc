"""Losses: a slice makes its part of the sum, or of the mean."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, Slicewise, shape, share_of_mean, with_argument

_aten = torch.ops.aten
_NONE, _MEAN, _SUM = 0, 1, 2


def _nll_forward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(input, target, weight, reduction, ignored) -> (loss, total weight)"""
    source, target, _, reduction = node.args[:4]
    rows = _first_rows(known, source, target)
    if rows is None or len(shape(source)) == 1:
        return None
    reads = {source: rows, target: rows}
    if reduction == _NONE:
        return Cut(reads, [rows, Slicewise.TOTAL])
    loss, finish = ((Slicewise.UNFINISHED, _weighted_mean) if reduction == _MEAN
                    else (Slicewise.TOTAL, None))
    return Cut(reads, [loss, Slicewise.TOTAL], arguments=lambda _: with_argument(node, 3, _SUM),
               finish=finish)


def _weighted_mean(run, totals):
    loss, weight = totals
    return [run(_aten.div.Tensor, loss, weight), weight]


def _nll_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, input, target, weight, reduction, ignored, total weight): divides by that."""
    gradient, source, target, _, reduction = node.args[:5]
    rows = _first_rows(known, source, target)
    if rows is None or len(shape(source)) == 1:
        return None
    reads = {source: rows, target: rows}
    if reduction == _NONE:
        reads[gradient] = rows
    return Cut(reads, rows)


def _elementwise_loss(node: fx.Node, known: KnownRows) -> Cut | None:
    """(input, target, reduction, ...)"""
    source, target = node.args[:2]
    rows = _rows_of_same_shape(known, source, target)
    reduction = node.args[2] if len(node.args) > 2 else _MEAN
    if rows is None:
        return None
    return Cut({source: rows, target: rows}, rows if reduction == _NONE else Slicewise.TOTAL,
               call=share_of_mean(source, rows) if reduction == _MEAN else None)


def _elementwise_loss_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, input, target, reduction, ...)"""
    gradient, source, target, reduction = node.args[:4]
    rows = _rows_of_same_shape(known, source, target)
    if rows is None:
        return None
    reads = {source: rows, target: rows}
    return Cut({**reads, gradient: rows} if reduction == _NONE else reads, rows,
               call=share_of_mean(source, rows, 1) if reduction == _MEAN else None)


def _first_rows(known: KnownRows, source: fx.Node, target: fx.Node) -> Rows | None:
    """The rows of both, the first dimension of each."""
    rows = known.rows(source) or known.rows(target)
    return rows if rows is not None and rows.dim == 0 else None


def _rows_of_same_shape(known: KnownRows, source: fx.Node, target: fx.Node) -> Rows | None:
    same = shape(source) == shape(target) and source is not target
    return (known.rows(source) or known.rows(target)) if same else None


RULES = {
    _aten.nll_loss_forward.default: _nll_forward,
    _aten.nll_loss_backward.default: _nll_backward,
    _aten.nll_loss2d_forward.default: _nll_forward,
    _aten.nll_loss2d_backward.default: _nll_backward,
    _aten.mse_loss.default: _elementwise_loss,
    _aten.mse_loss_backward.default: _elementwise_loss_backward,
    _aten.smooth_l1_loss.default: _elementwise_loss,
    _aten.smooth_l1_loss_backward.default: _elementwise_loss_backward,
    _aten.huber_loss.default: _elementwise_loss,
    _aten.huber_loss_backward.default: _elementwise_loss_backward,
}
