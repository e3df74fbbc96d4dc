"""Lookups in a table: a row of indices makes a row; the table's gradient is a sum over them."""

from __future__ import annotations

import math

import torch
from torch import fx

from .cut import Cut, KnownRows, Run, Slicewise, reshaped, shape

_aten = torch.ops.aten


def _embedding(node: fx.Node, known: KnownRows) -> Cut | None:
    table, indices = node.args[:2]
    rows = known.rows(indices)
    if rows is None or known.rows(table):
        return None
    return Cut({indices: rows}, rows)


def _embedding_backward(node: fx.Node, known: KnownRows) -> Cut | None:
    """(gradient, indices, ..., scaled by frequency): frequencies are those of the whole."""
    gradient, indices = node.args[:2]
    rows = known.rows(indices)
    if rows is None or node.args[4] or not known.has(gradient, rows):
        return None
    return Cut({gradient: rows, indices: rows}, Slicewise.TOTAL, add_to=_rows_added_to)


def _rows_added_to(run: Run, table: fx.Node, args: tuple, kwargs) -> fx.Node:
    gradient, indices, _, padding = args[:4]
    count = math.prod(shape(indices))
    rows = reshaped(run, gradient, [count, shape(gradient)[-1]])
    indices = reshaped(run, indices, [count])
    if padding >= 0:
        is_padding = run(_aten.unsqueeze.default, run(_aten.eq.Scalar, indices, padding), 1)
        rows = run(_aten.masked_fill.Scalar, rows, is_padding, 0)
    return run(_aten.index_add.default, table, 0, indices, rows)


RULES = {
    _aten.embedding.default: _embedding,
    _aten.embedding_dense_backward.default: _embedding_backward,
}
