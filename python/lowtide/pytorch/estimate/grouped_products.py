"""Products of groups of rows with a matrix each, as mixtures of experts compute them."""

from __future__ import annotations

import torch

GROUPED = torch.ops.aten._grouped_mm.default


def grouped_product(left: torch.Tensor, right: torch.Tensor, offs: torch.Tensor | None = None,
                    bias: torch.Tensor | None = None,
                    out_dtype: torch.dtype | None = None) -> torch.Tensor:
    """The result of ``_grouped_mm`` without its numbers, for every type that it computes in:
    PyTorch's own rule for fake tensors knows bfloat16 alone.

    Of ``left`` [rows, inner] and ``right`` [groups, inner, columns] that is [rows, columns]; of two
    matrices, [groups, rows, columns]; ``offs``: where each group ends.
    """
    shape = [left.shape[-2], right.shape[-1]]
    if left.dim() == right.dim():
        shape.insert(0, left.shape[0] if offs is None else offs.shape[0])
    return torch.empty(shape, dtype=out_dtype or left.dtype, device=left.device)


def all_in_last_group(left: torch.Tensor, right: torch.Tensor, offs: torch.Tensor | None = None,
                      *_) -> None:
    """Makes ``offs`` those for which kernels that take memory by the largest group take the most:
    the groups are of rows of ``left``, columns of ``right``, or of what the product sums over."""
    if offs is None:
        return
    size = {0: left.shape[-1], -1: left.shape[0], 1: right.shape[-1]}[left.dim() - right.dim()]
    offs.zero_()[-1] = size
