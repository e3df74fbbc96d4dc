"""Lookups in a table: a row of indices makes a row; the table's gradient is a sum over them."""

from __future__ import annotations

import torch
from torch import fx

from ..cut import Batch, Cut, Part

_aten = torch.ops.aten


def _embedding(node: fx.Node, batch: Batch) -> Cut | None:
    table, indices = node.args[:2]
    rows = batch.rows(indices)
    if rows is None or batch.rows(table):
        return None
    return Cut({indices: rows}, rows)


def _embedding_backward(node: fx.Node, batch: Batch) -> Cut | None:
    """(gradient, indices, ..., scaled by frequency): frequencies are those of the whole."""
    gradient, indices = node.args[:2]
    rows = batch.rows(indices)
    if rows is None or node.args[4] or not batch.has(gradient, rows):
        return None
    return Cut({gradient: rows, indices: rows}, Part.TOTAL)


RULES = {
    _aten.embedding.default: _embedding,
    _aten.embedding_dense_backward.default: _embedding_backward,
}
