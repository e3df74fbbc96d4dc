"""Sums and means: over the rows, a slice makes a part of the sum."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, Slicewise, of_each_result, shape, share_of_mean

_aten = torch.ops.aten


def _dimensions(node: fx.Node, rank: int) -> list[int]:
    given = node.args[1] if len(node.args) > 1 else None
    given = [given] if isinstance(given, int) else given
    return [dim % rank for dim in given] if given else list(range(rank))


def rows_left(rows: Rows, lost: list[int], keeps: bool) -> Rows:
    """Where the rows lie once those dimensions are reduced."""
    return rows if keeps else rows.at(rows.dim - sum(dim < rows.dim for dim in lost))


def _sum(node: fx.Node, known: KnownRows) -> Cut | None:
    source = node.args[0]
    rows = known.rows(source)
    if rows is None:
        return None
    reduced = _dimensions(node, len(shape(source)))
    if rows.dim in reduced:
        return Cut({source: rows}, Slicewise.TOTAL)
    keeps = len(node.args) > 2 and node.args[2]
    return Cut({source: rows}, rows_left(rows, reduced, keeps))


def _mean(node: fx.Node, known: KnownRows) -> Cut | None:
    found, rows = _sum(node, known), known.rows(node.args[0])
    if found is None or rows is None or found.made is not Slicewise.TOTAL:
        return found
    return Cut(found.reads, Slicewise.TOTAL, call=share_of_mean(node.args[0], rows))


def _other(node: fx.Node, known: KnownRows) -> Cut | None:
    """A reduction that is no sum, over other dimensions than the rows'."""
    found = _sum(node, known)
    if found is None or not isinstance(found.made, Rows):
        return None
    return Cut(found.reads, of_each_result(node, found.made))


RULES = {
    _aten.sum.default: _sum,
    _aten.sum.dim_IntList: _sum,
    _aten.mean.default: _mean,
    _aten.mean.dim: _mean,
    _aten.amax.default: _other,
    _aten.amin.default: _other,
    _aten.max.dim: _other,
    _aten.min.dim: _other,
    _aten.argmax.default: _other,
    _aten.logsumexp.default: _other,
}
