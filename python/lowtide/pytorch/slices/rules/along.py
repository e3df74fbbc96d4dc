"""Ops that treat each line along a dimension apart, such as softmax."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, dimension, of_each_result, shape

_aten = torch.ops.aten


def _line(position: int, tensors: int = 1):
    """``position`` of the dimension among the arguments, of which the first ``tensors`` have the
    rows."""
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        given = node.args[:tensors]
        found = {known.rows(tensor) for tensor in given} - {None}
        if len(found) != 1:
            return None
        rows = found.pop()
        sizes = shape(given[0])
        has_rows = all(known.has(tensor, rows) for tensor in given)
        if not has_rows or dimension(node, position, len(sizes), -1) == rows.dim:
            return None
        return Cut(dict.fromkeys(given, rows), of_each_result(node, rows))

    return rule


def _gather(node: fx.Node, known: KnownRows) -> Cut | None:
    return _line(1)(node, known) and _with_index(node, known)


def _with_index(node, known):
    source, dim, index = node.args[:3]
    rows = known.rows(source)
    if not known.has(index, rows):
        return None
    return Cut({source: rows, index: rows}, rows)


RULES = {
    _aten._softmax.default: _line(1),
    _aten._log_softmax.default: _line(1),
    _aten._softmax_backward_data.default: _line(2, tensors=2),
    _aten._log_softmax_backward_data.default: _line(2, tensors=2),
    _aten.cumsum.default: _line(1),
    _aten.sort.default: _line(1),
    _aten.topk.default: _line(2),
    _aten.glu.default: _line(1),
    _aten.glu_backward.default: _line(2, tensors=2),
    _aten.gather.default: _gather,
}
