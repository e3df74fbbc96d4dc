"""Of a tensor that lies on several ranks, the part that is here."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What of a DTensor lies on this rank, without a graph; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def counted_part(tensor: torch.Tensor) -> torch.Tensor:
    """What counts of a DTensor on each rank: a tensor as large as the largest of all ranks, so that
    all count the same. Any other tensor as it is."""
    local = local_part(tensor)
    if local is tensor or not tensor.placements[0].is_shard() or not tensor.shape:
        return local
    rows = -(-tensor.shape[0] // tensor.device_mesh.size())
    if local.shape[0] == rows:
        return local
    return torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device="meta")


def counted_parts(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [counted_part(tensor) for tensor in tensors]
