"""The parts of a batch whose gradients add up to that of the whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch
from torch.utils import _pytree as pytree

from .. import InputError
from ..arguments import checked_count
from .common.inputs import tensors_in


@dataclasses.dataclass(frozen=True)
class MicroBatch:
    """``inputs``: as those of the batch, with some of its rows. ``weight``: what their mean loss
    counts in that of the batch."""

    inputs: object
    weight: float


def micro_batches(inputs: object, count: int, targets: torch.Tensor | None = None, *,
                  ignore_index: int = -100) -> list[MicroBatch]:
    """A batch in ``count`` parts, whose losses times their weights are the loss of the batch:

        for part in lowtide.micro_batches((tokens, labels), 4, labels):
            (model(*part.inputs) * part.weight).backward()

    ``inputs``: tensors in any containers; those with as many rows as the first one are divided, and
    what else is in them is the same in each part. ``targets``: where the loss is a mean over those
    that are not ``ignore_index``. Parts without any have no mean and no gradient, and are left
    out. Without targets, the loss is a mean over the rows. Raises InputError for more parts than
    rows, and for targets without a row for each of the batch.
    """
    checked_count("count", count, 1)
    rows = _number_of_rows(inputs)
    if rows < count:
        raise InputError(f"a batch of {rows} rows has no {count} parts: choose a count of {rows} "
                         f"at most, or a larger batch")
    counted = _counted_by_row(targets, ignore_index, rows)
    total = sum(counted)
    return [MicroBatch(_rows(inputs, rows, first, end), sum(counted[first:end]) / total)
            for first, end in _borders(rows, count) if any(counted[first:end])]


def _number_of_rows(inputs: object) -> int:
    rows = next((tensor.shape[0] for tensor in tensors_in(inputs) if tensor.dim() > 0), None)
    if rows is None:
        raise InputError("there is no tensor with rows among the inputs: give a batch, such as a "
                         "tuple or a dict of tensors whose first dimension is that of the batch")
    return rows


def _counted_by_row(targets: torch.Tensor | None, ignore_index: int, rows: int) -> list[int]:
    """How many numbers of the loss each row has a part in."""
    if targets is None:
        return [1] * rows
    if not isinstance(targets, torch.Tensor) or targets.dim() == 0 or targets.shape[0] != rows:
        raise InputError(f"targets must be a tensor with a row for each of the {rows} of the "
                         f"batch: give the labels as they are before they are flattened")
    return (targets.view(rows, 1) if targets.dim() == 1 else targets).ne(ignore_index).flatten(
        1).sum(1).tolist()


def _borders(rows: int, count: int) -> Iterator[tuple[int, int]]:
    """The first row and the end of each part."""
    return ((rows * part // count, rows * (part + 1) // count) for part in range(count))


def _rows(inputs: object, rows: int, first: int, end: int) -> object:
    def part(leaf):
        is_divided = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == rows
        return leaf[first:end] if is_divided else leaf

    return pytree.tree_map(part, inputs)
