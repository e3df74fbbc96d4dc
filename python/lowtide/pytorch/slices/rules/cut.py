"""How an op runs in slices: the rows that it reads and makes, and the call of one slice."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx


@dataclasses.dataclass(frozen=True)
class Rows:
    """Where the rows of the batch lie in a tensor: along ``dim``, each ``unit`` elements, one row
    after the other; all that ``outer`` times, as where steps of time and rows are one dimension."""

    dim: int
    unit: int = 1
    outer: int = 1

    def length(self, count: int) -> int:
        """The size of the dimension for so many rows."""
        return self.outer * count * self.unit

    def at(self, dim: int) -> Rows:
        """The same in another dimension."""
        return dataclasses.replace(self, dim=dim)


class Slicewise(enum.Enum):
    """What a slice makes that is no rows."""

    TOTAL = "of a sum over all slices"
    UNFINISHED = "of a sum of which the op's result is yet to be made"
    SAME = "what each slice makes"


#: Of one result of an op: the rows in it; of a cut op, what else its slices make.
Made = Rows | Slicewise | None

#: Runs an op of ATen on fake tensors and adds it to the graph: ``run(target, *args, **kwargs)``.
Run = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Cut:
    """One op in slices.

    ``reads``: of which inputs a slice reads its rows, or its part of a sum; it reads the others
    whole. ``made``: of each result; one for an op with one result, a sequence otherwise.
    ``arguments(rows)``: positional arguments of a slice of so many rows, where shapes are among
    them; inputs are those of the whole op. ``call(run, target, args, kwargs)``: what a slice
    computes, if that is not the op itself. ``finish(run, totals)``: the results of the whole op
    from those of the slices, added up, where a sum is not yet the result.
    ``add_to(run, before, args, kwargs)``: the sum ``before`` and the part of a slice, without that
    part in memory.
    """

    reads: Mapping[fx.Node, Rows | Slicewise]
    made: Made | Sequence[Made]
    arguments: Callable[[int], tuple] | None = None
    call: Callable | None = None
    finish: Callable | None = None
    add_to: Callable | None = None


@dataclasses.dataclass(frozen=True)
class Whole:
    """An op that runs as a whole, as it mixes rows; results have rows nevertheless."""

    made: Made | Sequence[Made]


class KnownRows:
    """What a rule asks about the inputs of an op. ``size``: rows of the batch."""

    def __init__(self, size: int, made: Mapping[fx.Node, Any]):
        self.size = size
        self._made = made

    def rows(self, value: object) -> Rows | None:
        """Where the rows of an argument lie; None for what has none."""
        made = self._made.get(value) if isinstance(value, fx.Node) else None
        return made if isinstance(made, Rows) else None

    def is_total(self, value: object) -> bool:
        """Whether slices make parts of a sum that is this."""
        return isinstance(value, fx.Node) and self._made.get(value) is Slicewise.TOTAL

    def has(self, value: fx.Node, rows: Rows) -> bool:
        """Whether a tensor is large enough to have these rows."""
        sizes = shape(value)
        return 0 <= rows.dim < len(sizes) and sizes[rows.dim] == rows.length(self.size)


def shape(value: object) -> tuple[int, ...]:
    """Of a node with one result, or of the first of several; () for what is no tensor."""
    found = value.meta.get("val") if isinstance(value, fx.Node) else value
    while isinstance(found, (list, tuple)):
        found = found[0]
    return tuple(found.shape) if isinstance(found, torch.Tensor) else ()


def dimension(node: fx.Node, position: int, rank: int, default: int = 0) -> int:
    """The argument at that position as a dimension that is not negative."""
    given = node.args[position] if position < len(node.args) else default
    return given % rank if rank else 0


def of_each_result(node: fx.Node, rows: Rows) -> Made | Sequence[Made]:
    """The same rows in all that an op makes."""
    value = node.meta["val"]
    return [rows] * len(value) if isinstance(value, (list, tuple)) else rows


def with_argument(node: fx.Node, position: int, value: object) -> tuple:
    """The positional arguments with another one there."""
    return (*node.args[:position], value, *node.args[position + 1:])


def share_of_mean(source: fx.Node, rows: Rows, position: int = 0) -> Callable:
    """Of a cut: a mean over the elements of an argument, times the share of the rows of ``source``
    that a slice has. Sums of the elements themselves may be too large for half precision."""
    def call(run: Run, target, args, kwargs):
        share = shape(args[position])[rows.dim] / shape(source)[rows.dim]
        return run(torch.ops.aten.mul.Tensor, run(target, *args, **kwargs), share)

    return call


def resized(sizes: Sequence[int], rows: Rows, count: int) -> list[int]:
    """The sizes of so many rows."""
    return [rows.length(count) if dim == rows.dim else size for dim, size in enumerate(sizes)]


def accumulated(dtype: torch.dtype) -> torch.dtype:
    """In which sums of such numbers are added up: that of half precision overflows, where their
    mean does not."""
    return torch.promote_types(dtype, torch.float32)


def in_type(run: Run, tensor: fx.Node, dtype: torch.dtype) -> fx.Node:
    if tensor.meta["val"].dtype == dtype:
        return tensor
    return run(torch.ops.aten._to_copy.default, tensor, dtype=dtype)


def reshaped(run: Run, tensor: fx.Node, sizes: Sequence[int]) -> fx.Node:
    """A view; a copy where the elements lie with gaps, as rows of a tensor may."""
    if not _can_view(tensor.meta["val"], sizes):
        tensor = run(torch.ops.aten.clone.default, tensor, memory_format=torch.contiguous_format)
    return run(torch.ops.aten.view.default, tensor, sizes)


def _can_view(value: torch.Tensor, sizes: Sequence[int]) -> bool:
    try:
        value.view(sizes)
    except (RuntimeError, ValueError):  # by PyTorch's version
        return False
    return True
