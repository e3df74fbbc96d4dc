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
