"""The joint graph in slices: each op that treats the rows of a batch apart, once for each slice."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from ..joint_graph.calls import Calls
from .marks import Marks
from .rules.cut import Cut, Made, Rows, Slicewise, reshaped, shape

_aten = torch.ops.aten
_VIEWS = (_aten.view.default, _aten._unsafe_view.default)


def rewritten(joint: fx.GraphModule, num_fwd_outputs: int, marks: Marks,
              slices: int) -> fx.GraphModule:
    """The same step, whose ops in ``marks.cuts`` run once for each of so many slices.

    The backward pass begins with the slice that the forward pass ended with.
    """
    writer = _Writer(joint, marks, _borders(marks.size, slices))
    by_stage = collections.defaultdict(list)
    for node in joint.graph.nodes:
        if node in marks.stages:
            by_stage[marks.stages[node]].append(node)
    returned, gradients = _results(joint, num_fwd_outputs)
    for stage in range(max(by_stage, default=-1) + 1):
        if stage == marks.backward:
            writer.whole_of(returned)
        writer.add_stage(by_stage[stage], backwards=stage >= marks.backward)
    return writer.module([*returned, *gradients])


def _borders(size: int, slices: int) -> list[tuple[int, int]]:
    """The first row and the end of each slice."""
    return [(size * index // slices, size * (index + 1) // slices) for index in range(slices)]


def _results(joint: fx.GraphModule, num_fwd_outputs: int) -> tuple[list, list]:
    results = list(joint.graph.output_node().args[0])
    return results[:num_fwd_outputs], results[num_fwd_outputs:]


class _Writer:
    """Writes the new graph. ``_whole`` and ``_slices`` hold, by node of the old one, what stands
    for it: nodes of the new one, or lists of them for an op with several results."""

    def __init__(self, joint: fx.GraphModule, marks: Marks, borders: Sequence[tuple[int, int]]):
        self._joint, self._marks, self._borders = joint, marks, borders
        self._graph = fx.Graph()
        self._whole: dict[fx.Node, Any] = {}
        self._slices: dict[fx.Node, list] = {}
        self._cut_wholes: dict[tuple[fx.Node, Rows, int], fx.Node] = {}
        self._calls = Calls(joint, self._graph)
        for node in joint.graph.find_nodes(op="placeholder"):
            self._whole[node] = self._graph.node_copy(node)

    def add_stage(self, nodes: Sequence[fx.Node], backwards: bool) -> None:
        in_slices = [node for node in nodes if self._marks.is_in_slices(node)]
        for node in nodes:
            if not self._marks.is_in_slices(node) and node.target is not operator.getitem:
                self._whole[node] = self._add_whole(node)
        order = range(len(self._borders))
        for index in reversed(order) if backwards else order:
            for node in in_slices:
                self._add_slice(node, index)
        for node in in_slices:
            self._finish(node)

    def whole_of(self, value: Any) -> Any:
        """What stands for a node as a whole; anything else as it is, lists by element."""
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.whole_of, value))
        if not isinstance(value, fx.Node):
            return value
        if value not in self._whole:
            self._whole[value] = self._made_whole(value)
        return self._whole[value]

    def module(self, results: Sequence) -> fx.GraphModule:
        output = self._graph.output(tuple(self.whole_of(list(results))))
        output.meta = dict(self._joint.graph.output_node().meta)
        self._graph.eliminate_dead_code()
        return fx.GraphModule(self._joint, self._graph)

    def _made_whole(self, node: fx.Node) -> Any:
        if self._marks.is_in_slices(node) and isinstance(self._marks.made[node], Rows):
            return self._joined(node)
        return self.whole_of(node.args[0])[node.args[1]]  # one of several results

    def _add_whole(self, node: fx.Node) -> Any:
        if node.op == "get_attr" or not isinstance(node.target, torch._ops.OpOverload):
            return self._graph.node_copy(node, self.whole_of)
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.whole_of)
        run = self._calls.instead_of(node, node.name)
        if node.target in _VIEWS:  # elements of what was joined may lie otherwise
            return reshaped(run, *args)
        return run(node.target, *args, **kwargs)

    def _add_slice(self, node: fx.Node, index: int) -> None:
        slices = self._slices.setdefault(node, [None] * len(self._borders))
        if node in self._marks.sums.within:
            return
        if node.target is operator.getitem:
            slices[index] = self._slices[node.args[0]][index][node.args[1]]
            return
        cut = self._marks.cuts[node]
        run = self._calls.instead_of(node, f"{node.name}_slice{index}")
        first, end = self._borders[index]
        given = cut.arguments(end - first) if cut.arguments else node.args
        args, kwargs = fx.map_arg((given, node.kwargs), lambda read: self._read(cut, read, index))
        slices[index] = self._added_up(node, cut, run, args, kwargs)

    def _read(self, cut: Cut, read: fx.Node, index: int) -> Any:
        wanted = cut.reads.get(read)
        if isinstance(wanted, Rows):
            if self._marks.reads_slices(cut, read) and read not in self._whole:
                return self._slices[read][index]
            return self._slice_of_whole(read, wanted, index)
        return self.whole_of(read) if wanted is None else self._slices[read][index]

    def _slice_of_whole(self, read: fx.Node, rows: Rows, index: int) -> fx.Node:
        key = (read, rows, index)
        if key not in self._cut_wholes:
            run = self._calls.instead_of(read, f"{read.name}_rows{index}")
            self._cut_wholes[key] = _rows_of(run, self.whole_of(read), rows, self._marks.size,
                                             *self._borders[index])
        return self._cut_wholes[key]

    def _added_up(self, node: fx.Node, cut: Cut, run: Callable, args, kwargs) -> Any:
        """What a slice makes; parts of sums are added to those of the slices before."""
        total = self._marks.sums.of_part.get(node, node)
        before = self._whole.get(total)
        is_read = total is node and self._marks.is_read_in_parts(node)
        if before is not None and cut.add_to is not None and not is_read:
            self._whole[total] = cut.add_to(run, before, args, kwargs)
            return None
        made = (cut.call(run, node.target, args, kwargs) if cut.call
                else run(node.target, *args, **kwargs))
        if isinstance(cut.made, (list, tuple)):
            self._whole[node] = [self._together(run, kind, earlier, part) for kind, earlier, part
                                 in zip(cut.made, before or [None] * len(made), made)]
        elif isinstance(cut.made, Slicewise):
            self._whole[total] = self._together(run, cut.made, before, made)
        return made

    @staticmethod
    def _together(run: Callable, kind: Made, before: fx.Node | None,
                  part: fx.Node | None) -> fx.Node | None:
        if before is None or part is None:
            return None if isinstance(kind, Rows) else part
        return before if kind is Slicewise.SAME else run(_aten.add.Tensor, before, part)

    def _finish(self, node: fx.Node) -> None:
        cut = self._marks.cuts.get(node)
        if cut is not None and cut.finish is not None:
            run = self._calls.instead_of(node, node.name)
            self._whole[node] = cut.finish(run, self._whole[node])

    def _joined(self, node: fx.Node) -> fx.Node:
        return _joined(self._calls.instead_of(node, f"{node.name}_joined"), self._slices[node],
                       self._marks.made[node], node.meta["val"])


def _rows_of(run: Callable, whole: fx.Node, rows: Rows, size: int, first: int, end: int) -> fx.Node:
    """Some rows of a tensor: a view where they lie together."""
    if rows.outer == 1:
        return run(_aten.slice.Tensor, whole, rows.dim, first * rows.unit, end * rows.unit)
    apart = run(_aten.slice.Tensor, _apart(run, whole, rows, size), rows.dim + 1,
                first * rows.unit, end * rows.unit)
    return _together(run, apart, rows.dim)


def _joined(run: Callable, slices: Sequence[fx.Node], rows: Rows, whole: torch.Tensor) -> fx.Node:
    """``whole``: what it is like, whose elements are to lie in the same order."""
    if rows.outer == 1:
        order = sorted(range(whole.dim()), key=whole.stride, reverse=True)
        if order == list(range(whole.dim())):
            return run(_aten.cat.default, slices, rows.dim)
        permuted = [run(_aten.permute.default, part, order) for part in slices]
        joined = run(_aten.cat.default, permuted, order.index(rows.dim))
        return run(_aten.permute.default, joined, [order.index(dim) for dim in range(whole.dim())])
    sizes = [shape(part)[rows.dim] // (rows.outer * rows.unit) for part in slices]
    apart = [_apart(run, part, rows, size) for part, size in zip(slices, sizes)]
    return _together(run, run(_aten.cat.default, apart, rows.dim + 1), rows.dim)


def _apart(run: Callable, tensor: fx.Node, rows: Rows, size: int) -> fx.Node:
    """The outer part of the rows' dimension in one of its own."""
    sizes = shape(tensor)
    return reshaped(run, tensor, [*sizes[:rows.dim], rows.outer, size * rows.unit,
                                  *sizes[rows.dim + 1:]])


def _together(run: Callable, tensor: fx.Node, dim: int) -> fx.Node:
    sizes = shape(tensor)
    return reshaped(run, tensor, [*sizes[:dim], sizes[dim] * sizes[dim + 1], *sizes[dim + 2:]])
