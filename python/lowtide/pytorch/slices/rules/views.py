"""Ops that lay the same elements out otherwise, or pick some of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import fx

from .cut import Cut, KnownRows, Rows, dimension, reshaped, resized, shape, with_argument

_aten = torch.ops.aten


def _view(node: fx.Node, known: KnownRows) -> Cut | None:
    source = node.args[0]
    rows = known.rows(source)
    found = rows and _rows_of_view(shape(source), rows, shape(node), known.size)
    if not found:
        return None
    return Cut({source: rows}, found,
               arguments=lambda count: (source, resized(shape(node), found, count)),
               call=lambda run, target, args, kwargs: reshaped(run, *args))


def _rows_of_view(source: Sequence[int], rows: Rows, target: Sequence[int],
                  size: int) -> Rows | None:
    """Where the rows lie in a view: behind as many elements as before."""
    if not math.prod(target):
        return None
    before = math.prod(source[:rows.dim]) * rows.outer
    for dim, length in enumerate(target):
        outer, cut_off = divmod(before, math.prod(target[:dim]))
        if cut_off == 0 and outer and length and length % (outer * size) == 0:
            return Rows(dim, length // (outer * size), outer)
    return None


def _expand(node: fx.Node, known: KnownRows) -> Cut | None:
    source, sizes = node.args[0], shape(node)
    rows = known.rows(source)
    if rows is None:
        return _expanded_to_rows(node, sizes, known)
    made = rows.at(rows.dim + len(sizes) - len(shape(source)))
    return Cut({source: rows}, made,
               arguments=lambda count: (source, resized(sizes, made, count)))


def _expanded_to_rows(node, sizes, known):
    """A tensor that is the same for all rows, as the gradient of a mean, gets rows here."""
    source = node.args[0]
    new = len(sizes) - len(shape(source))
    is_repeated = sizes and (new > 0 or shape(source)[0] == 1)
    if not is_repeated or sizes[0] % known.size or not sizes[0]:
        return None
    made = Rows(0, sizes[0] // known.size)
    return Cut({}, made, arguments=lambda count: (source, resized(sizes, made, count)))


def _constant(node: fx.Node, known: KnownRows) -> Cut | None:
    """A new tensor of one value."""
    sizes = shape(node)
    if not sizes or sizes[0] != known.size:
        return None
    reads = {read: known.rows(read) for read in node.all_input_nodes if known.rows(read)}
    position = len(node.all_input_nodes)
    made = Rows(0)
    return Cut(reads, made, arguments=lambda count: with_argument(
        node, position, resized(sizes, made, count)))


def _permuted(order):
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        source = node.args[0]
        rows = known.rows(source)
        if rows is None:
            return None
        return Cut({source: rows}, rows.at(order(node, len(shape(source))).index(rows.dim)))

    return rule


def _order_of_permute(node, rank):
    return [dim % rank for dim in node.args[1]]


def _order_of_transpose(node, rank):
    order = list(range(rank))
    first, second = dimension(node, 1, rank), dimension(node, 2, rank)
    order[first], order[second] = order[second], order[first]
    return order


def _order_of_t(node, rank):
    return list(reversed(range(rank)))


def _unsqueeze(node: fx.Node, known: KnownRows) -> Cut | None:
    source = node.args[0]
    rows = known.rows(source)
    if rows is None:
        return None
    new = dimension(node, 1, len(shape(source)) + 1)
    return Cut({source: rows}, rows.at(rows.dim + (new <= rows.dim)))


def _squeeze(node: fx.Node, known: KnownRows) -> Cut | None:
    """By the dimensions that the whole loses: a slice of one row is not to lose another."""
    source = node.args[0]
    rows, sizes = known.rows(source), shape(source)
    if rows is None:
        return None
    given = node.args[1] if len(node.args) > 1 else list(range(len(sizes)))
    given = [given] if isinstance(given, int) else given
    lost = [dim % len(sizes) for dim in given if sizes[dim] == 1]
    made = rows.at(rows.dim - sum(dim < rows.dim for dim in lost))
    return Cut({source: rows}, made, arguments=lambda _: (source, lost),
               call=lambda run, target, args, kwargs: run(_aten.squeeze.dims, *args))


def _within_other(position: int, drops: bool = False, several: bool = False, default: int = 0):
    """Picks along a dimension that is not the rows'; ``drops``: which is then gone."""
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        source = node.args[0]
        rows = known.rows(source)
        dim = dimension(node, position, len(shape(source)), default)
        if rows is None or dim == rows.dim:
            return None
        made = rows.at(rows.dim - (drops and dim < rows.dim))
        return Cut({source: rows}, [made] * len(node.meta["val"]) if several else made)

    return rule


def _slice(node: fx.Node, known: KnownRows) -> Cut | None:
    source = node.args[0]
    rows = known.rows(source)
    if rows is None:
        return None
    if shape(node) == shape(source):
        return Cut({source: rows}, rows, call=lambda run, target, args, kwargs: run(
            _aten.alias.default, args[0]))
    return _within_other(1)(node, known)


def _backward_of_pick(inserts: bool):
    """(gradient, sizes of the input, dimension, ...)"""
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        gradient, sizes = node.args[:2]
        rows = known.rows(gradient)
        dim = dimension(node, 2, len(sizes))
        if rows is None:
            return None
        made = rows.at(rows.dim + (inserts and dim <= rows.dim))
        if made.dim == dim or sizes[made.dim] != made.length(known.size):
            return None
        return Cut({gradient: rows}, made, arguments=lambda count: with_argument(
            node, 1, resized(sizes, made, count)))

    return rule


def _joined(stacks: bool):
    """(tensors, dimension)"""
    def rule(node: fx.Node, known: KnownRows) -> Cut | None:
        tensors = node.args[0]
        rank = len(shape(node))
        dim = dimension(node, 1, rank)
        found = {known.rows(tensor) for tensor in tensors} - {None}
        if len(found) != 1:
            return None
        rows = found.pop()
        made = rows.at(rows.dim + (stacks and dim <= rows.dim))
        if made.dim == dim or not all(known.has(tensor, rows) for tensor in tensors):
            return None
        return Cut({tensor: rows for tensor in tensors}, made)

    return rule


def _pad(node: fx.Node, known: KnownRows) -> Cut | None:
    source, padding = node.args[:2]
    rows = known.rows(source)
    if rows is None or rows.dim >= len(shape(source)) - len(padding) // 2:
        return None
    return Cut({source: rows}, rows)


RULES = {
    _aten.view.default: _view,
    _aten._unsafe_view.default: _view,
    _aten.expand.default: _expand,
    _aten.full.default: _constant,
    _aten.zeros.default: _constant,
    _aten.ones.default: _constant,
    _aten.new_zeros.default: _constant,
    _aten.new_ones.default: _constant,
    _aten.new_full.default: _constant,
    _aten.permute.default: _permuted(_order_of_permute),
    _aten.transpose.int: _permuted(_order_of_transpose),
    _aten.t.default: _permuted(_order_of_t),
    _aten.unsqueeze.default: _unsqueeze,
    _aten.squeeze.default: _squeeze,
    _aten.squeeze.dim: _squeeze,
    _aten.squeeze.dims: _squeeze,
    _aten.select.int: _within_other(1, drops=True),
    _aten.unbind.int: _within_other(1, drops=True, several=True),
    _aten.split.Tensor: _within_other(2, several=True),
    _aten.split_with_sizes.default: _within_other(2, several=True),
    _aten.slice.Tensor: _slice,
    _aten.index_select.default: _within_other(1),
    _aten.slice_backward.default: _backward_of_pick(inserts=False),
    _aten.select_backward.default: _backward_of_pick(inserts=True),
    _aten.cat.default: _joined(stacks=False),
    _aten.stack.default: _joined(stacks=True),
    _aten.constant_pad_nd.default: _pad,
    _aten.reflection_pad2d.default: _pad,
    _aten.replication_pad2d.default: _pad,
}
