"""A part of a batch."""

from __future__ import annotations

import torch
from torch.utils import _pytree as pytree

from ..common.inputs import tensors_in


def number_of_rows(inputs: object) -> int | None:
    """Of the batch: the length of the first dimension of the first input; None where there is
    none."""
    tensors = [tensor for tensor in tensors_in(inputs) if tensor.dim() > 0]
    return tensors[0].shape[0] if tensors else None


def first_rows(inputs: object, rows: int) -> object:
    """Of all inputs that have as many rows as the batch; the others are as they are."""
    whole = number_of_rows(inputs)

    def part(leaf):
        is_batch = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == whole
        return leaf[:rows] if is_batch else leaf

    return pytree.tree_map(part, inputs)
