"""Lookups in a table: a row of indices makes a row; the table's gradient is a sum over them."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Slicewise

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
    return Cut({gradient: rows, indices: rows}, Slicewise.TOTAL)


RULES = {
    _aten.embedding.default: _embedding,
    _aten.embedding_dense_backward.default: _embedding_backward,
}
