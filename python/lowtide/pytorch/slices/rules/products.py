"""Products of matrices: rows of a factor are rows of the product; along the summed dimension, a
slice makes a part of the sum."""

from __future__ import annotations

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, Slicewise, shape

_aten = torch.ops.aten
_ADDED_TO = {_aten.mm.default: _aten.addmm.default, _aten.bmm.default: _aten.baddbmm.default}


def _mm(node: fx.Node, known: KnownRows) -> Cut | None:
    return _product(node, node.args[0], node.args[1], known)


def _addmm(node: fx.Node, known: KnownRows) -> Cut | None:
    added, a, b = node.args[:3]
    found = _product(node, a, b, known)
    if found is None or not isinstance(found.made, Rows):
        return None
    rows = found.made.at(found.made.dim - len(shape(node)) + len(shape(added)))
    return Cut({**found.reads, added: rows}, found.made) if known.has(added, rows) else found


def _product(node, a, b, known) -> Cut | None:
    """Of matrices, or of as many pairs of them along the first dimension."""
    rank = len(shape(node))
    row, column = rank - 2, rank - 1
    in_a, in_b = known.rows(a), known.rows(b)
    if a is b:
        return None
    if rank == 3 and (pairs := next((rows for rows in (in_a, in_b) if rows and rows.dim == 0),
                                    None)):
        return Cut({a: pairs, b: pairs}, pairs)
    if in_a and in_a.dim == column and known.has(b, in_a.at(row)):
        return _sum(node, {a: in_a, b: in_a.at(row)})
    if in_b and in_b.dim == row and known.has(a, in_b.at(column)):
        return _sum(node, {a: in_b.at(column), b: in_b})
    if in_a and in_a.dim == row and in_b is None:
        return Cut({a: in_a}, in_a)
    if in_b and in_b.dim == column and in_a is None:
        return Cut({b: in_b}, in_b)
    return None


def _sum(node, reads):
    target = _ADDED_TO.get(node.target)
    return Cut(reads, Slicewise.TOTAL, add_to=target and (
        lambda run, before, args, kwargs: run(target, before, *args)))


def _mv(node: fx.Node, known: KnownRows) -> Cut | None:
    matrix, vector = node.args
    rows = known.rows(matrix)
    if rows is None or rows.dim != 0 or known.rows(vector):
        return None
    return Cut({matrix: rows}, rows)


RULES = {
    _aten.mm.default: _mm,
    _aten.bmm.default: _mm,
    _aten.addmm.default: _addmm,
    _aten.baddbmm.default: _addmm,
    _aten.mv.default: _mv,
}
