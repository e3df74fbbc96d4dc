"""Which ops of a joint graph run in slices, and in which order the parts of the graph then run."""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from ..joint_graph.phases import split
from ..joint_graph.primals import placeholders
from .rules import cut_of, is_of_no_use_alone
from .rules.cut import Cut, KnownRows, Made, Rows, Slicewise, Whole, shape
from .segments import segment_ends, segments, storages
from .sums import Sums, sums_of_parts

_aten = torch.ops.aten
#: Their results depend on where in memory the elements of their first argument lie. A factorization
#: is of the matrix or of its transpose, and its derivative was traced for one of them.
_BY_PLACE = (_aten.as_strided.default, _aten.as_strided_scatter.default, _aten._linalg_det.default,
             _aten._linalg_slogdet.default, _aten._linalg_solve_ex.default)

#: Of the inputs, that slices may be along: the batch, or the time of one sequence.
_DIMENSIONS = (0, 1)


@dataclasses.dataclass(frozen=True)
class SliceOrder:
    """What is chosen by bytes: the dimension of the inputs that slices are along, and where each
    pass is cut into segments. Graphs of one step at several sizes, with the same choice, have their
    ops in one order."""

    dim: int
    forward_ends: tuple[int, ...] = ()
    backward_ends: tuple[int, ...] = ()


@dataclasses.dataclass
class Marks:
    """``order``: what was chosen. ``size``: rows of the batch. ``made``: by node, one for each
    result; ``cuts``: of the ops that run in slices; ``whole``: ops that mix rows and whose results
    have rows. ``stages``: by node. All slices of a stage run before the next one begins, and ops
    that run as a whole before the slices of their stage. ``backward``: the first stage of the
    backward pass. ``sums``: to which slices of several ops add their parts.
    """

    order: SliceOrder
    size: int
    made: dict[fx.Node, Any] = dataclasses.field(default_factory=dict)
    cuts: dict[fx.Node, Cut] = dataclasses.field(default_factory=dict)
    whole: set[fx.Node] = dataclasses.field(default_factory=set)
    stages: dict[fx.Node, int] = dataclasses.field(default_factory=dict)
    backward: int = 0
    sums: Sums = dataclasses.field(default_factory=Sums)

    def is_in_slices(self, node: fx.Node) -> bool:
        return source_of(node) in self.cuts

    def reads_slices(self, cut: Cut | None, read: fx.Node) -> bool:
        """Whether an op takes what the same slice of that one made."""
        wanted = None if cut is None else cut.reads.get(read)
        return wanted is not None and self.is_in_slices(read) and self.made[read] == wanted

    def is_read_in_parts(self, node: fx.Node) -> bool:
        return any(self.reads_slices(self.cuts.get(user), node) for user in node.users)

    def leave_whole(self, node: fx.Node) -> None:
        del self.cuts[node], self.made[node]


def source_of(node: fx.Node) -> fx.Node:
    """The op, of one that picks a result."""
    return source_of(node.args[0]) if node.target is operator.getitem else node


def marked(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str],
           order: SliceOrder | None = None) -> Marks | None:
    """What runs in slices: along the first or the second dimension of the inputs, whichever has
    more bytes in slices; or as another size of the same graph, by its ``order``. ``roles``: by
    primal. None where nothing does."""
    inputs = [node for node, role in zip(placeholders(joint, "primals"), roles) if role == "input"]
    found = [_marked_along(joint, num_fwd_outputs, inputs, dim, order)
             for dim in (_DIMENSIONS if order is None else (order.dim,))]
    best = max(found, key=_bytes_in_slices)
    return best if best.cuts else None


def _marked_along(joint: fx.GraphModule, num_fwd_outputs: int, inputs: Sequence[fx.Node],
                  dim: int, order: SliceOrder | None) -> Marks:
    with_rows = [node for node in inputs if len(shape(node)) > dim and shape(node)[dim] > 1]
    sizes = collections.Counter(shape(node)[dim] for node in with_rows)
    marks = Marks(SliceOrder(dim), max(sizes, key=lambda size: sizes[size], default=1))
    for node in with_rows:
        if shape(node)[dim] == marks.size:
            marks.made[node] = Rows(dim)
    if not marks.made:
        return marks
    forward, backward = split(joint, num_fwd_outputs)
    _mark(marks, forward)
    _mark_tangents(marks, joint, num_fwd_outputs)
    _mark(marks, backward)
    _leave_sums_alone(marks, [*forward, *backward])
    marks.sums = sums_of_parts([*forward, *backward], marks.cuts, marks.is_read_in_parts)
    marks.order = order or SliceOrder(dim, tuple(segment_ends(forward)),
                                      tuple(segment_ends(backward)))
    _put_in_stages(marks, segments(forward, marks.order.forward_ends))
    marks.backward = 1 + max(marks.stages.values(), default=-1)
    _put_in_stages(marks, segments(backward, marks.order.backward_ends))
    return marks


def _bytes_in_slices(marks: Marks) -> int:
    return sum(_bytes(node.meta["val"]) for node in marks.cuts)


def _bytes(results: object) -> int:
    return sum(value.nbytes for value in pytree.tree_leaves(results)
               if isinstance(value, torch.Tensor))


def _mark_tangents(marks: Marks, joint: fx.GraphModule, num_fwd_outputs: int) -> None:
    """The gradient of a result has its rows."""
    output = joint.graph.output_node()
    made = {description: _rows_of(marks.made.get(node)) for node, description
            in zip(output.args[0][:num_fwd_outputs], output.meta["desc"])
            if isinstance(node, fx.Node)}
    for tangent in placeholders(joint, "tangents"):
        rows = made.get(getattr(tangent.meta["desc"], "output", None))
        if rows is not None:
            marks.made[tangent] = rows


def _rows_of(made: Made) -> Rows | None:
    return made if isinstance(made, Rows) else None


def _mark(marks: Marks, nodes: Sequence[fx.Node]) -> None:
    known = KnownRows(marks.size, marks.made)
    left_whole = _read_by_place(nodes)
    for node in nodes:
        if node.target is operator.getitem:
            marks.made[node] = _picked(marks.made.get(node.args[0]), node.args[1])
            continue
        is_cut = (isinstance(node.target, torch._ops.OpOverload)
                  and left_whole.isdisjoint(storages(node.meta.get("val"))))
        found = cut_of(node, known) if is_cut else None
        if found is not None:
            marks.made[node] = found.made
        if isinstance(found, Cut):
            marks.cuts[node] = found
        if isinstance(found, Whole):
            marks.whole.add(node)


def _read_by_place(nodes: Sequence[fx.Node]) -> set[int]:
    """Storages that are to be as they are without slices."""
    return {storage for node in nodes if node.target in _BY_PLACE
            for storage in storages(node.args[0].meta["val"])}


def _picked(made: Made | Sequence[Made], index: int) -> Made:
    return made[index] if isinstance(made, (list, tuple)) else None


def _leave_sums_alone(marks: Marks, nodes: Sequence[fx.Node]) -> None:
    """What follows a sum waits for the whole of it, where slices gain nothing by it."""
    for node in reversed(nodes):
        cut = marks.cuts.get(node)
        if (cut is not None and Slicewise.TOTAL in cut.reads.values() and is_of_no_use_alone(node)
                and not marks.is_read_in_parts(node)):
            marks.leave_whole(node)


def _put_in_stages(marks: Marks, parts: Sequence[Sequence[fx.Node]]) -> None:
    for segment in parts:
        first = 1 + max(marks.stages.values(), default=-1)
        for node in segment:
            marks.stages[node] = _stage(marks, node, first)


def _stage(marks: Marks, node: fx.Node, first: int) -> int:
    if node.target is operator.getitem:
        return marks.stages[node.args[0]]
    cut = marks.cuts.get(node)
    stage = max([first, *(marks.stages.get(read, 0) + _waits(marks, cut, read)
                          for read in node.all_input_nodes)])
    if cut is not None and node not in marks.sums.within and any(
            part is Slicewise.TOTAL and not _is_at_hand(marks, cut, read, stage)
            for read, part in cut.reads.items()):
        # Parts of a sum are not held from one stage to the next.
        marks.leave_whole(node)
        return _stage(marks, node, first)
    return stage


def _waits(marks: Marks, cut: Cut | None, read: fx.Node) -> bool:
    """Whether the op needs all slices of what it reads."""
    return marks.is_in_slices(read) and not marks.reads_slices(cut, read)


def _is_at_hand(marks: Marks, cut: Cut, read: fx.Node, stage: int) -> bool:
    return marks.reads_slices(cut, read) and marks.stages[read] == stage
