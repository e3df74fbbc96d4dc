"""Of a tensor that lies on several ranks, the part that is here, and what counts of any tensor."""

from __future__ import annotations

from collections.abc import Iterable

import torch


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """What of a DTensor lies on this rank, without a graph; any other tensor as it is."""
    return getattr(tensor, "_local_tensor", tensor)


def lies_in_shards(tensor: torch.Tensor) -> bool:
    """Of a DTensor. Its shards lie along the last dimension of its mesh; along the first one of
    two, other ranks have the same."""
    return tensor.placements[-1].is_shard()


def counted_part(tensor: torch.Tensor) -> torch.Tensor:
    """What counts of a DTensor on each rank: a tensor as large as the largest of all ranks, so that
    all count the same. Within a transform of ``torch.func``, the tensor that is transformed. Any
    other tensor as it is."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    local = local_part(tensor)
    if local is tensor or not lies_in_shards(tensor) or not tensor.shape:
        return local
    rows = -(-tensor.shape[0] // tensor.device_mesh.shape[-1])
    if local.shape[0] == rows:
        return local
    return torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device="meta")


def counted_parts(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [counted_part(tensor) for tensor in tensors]
