"""The total norm of the gradients of a backward pass that clips them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

from ... import Error
from ..common.fused_update import FusedUpdate
from ..common.local_tensor import lies_in_shards
from ..ranks.errors import collective_named


class GradientNorm:
    """``parameters``: gives those whose gradients count, as one would give them to
    ``torch.nn.utils.clip_grad_norm_``."""

    def __init__(self, clip: FusedUpdate, parameters: Callable[[], Iterable[torch.Tensor]]):
        self._clip, self._parameters = clip, parameters
        self._last: torch.Tensor | None = None
        self._is_known = False

    @property
    def last(self) -> float | None:
        """Before clipping, of the last backward pass; None before the first."""
        return self._last.item() if self._is_known and self._last is not None else None

    def counted(self) -> list[torch.Tensor]:
        """The parameters, in the order in which the norm adds up their gradients."""
        ordered = list(dict.fromkeys(parameter for parameter in self._parameters()
                                     if parameter.requires_grad))
        if not ordered:
            return []
        groups = _group_tensors_by_device_and_dtype([ordered])  # type: ignore[list-item]
        return [parameter for (lists, _) in groups.values() for parameter in lists[0]]

    def make_room(self) -> None:
        """For the norm, which outlives the block of a pass; before a step, as it is no part of
        one."""
        counted = self.counted()
        if counted and (self._last is None or self._last.device != counted[0].device):
            self._last = torch.zeros((), dtype=_real_type(counted), device=counted[0].device)
            self._is_known = False

    def over_ranks(self, norms: Sequence[torch.Tensor],
                   parameters: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Of parameters in shards, the norms of the whole gradients, by those of what is here."""
        sharded = [place for place, parameter in enumerate(parameters)
                   if isinstance(parameter, DTensor) and lies_in_shards(parameter)]
        if not sharded:
            return norms
        ranks = parameters[sharded[0]].device_mesh.get_group(-1)
        here = torch.stack([norms[place] for place in sharded])
        with collective_named("the norm of all gradients", dist.get_rank(ranks), ranks.size()):
            if self._clip.norm_type == math.inf:
                dist.all_reduce(here, dist.ReduceOp.MAX, group=ranks)
            else:
                dist.all_reduce(here.square_(), group=ranks)
                here.sqrt_()
        found = list(norms)
        for place, norm in zip(sharded, here):
            found[place] = norm
        return found

    def take(self, norm: torch.Tensor) -> None:
        assert self._last is not None, "there was room made"
        self._last.copy_(norm)
        self._is_known = True
        if self._clip.error_if_nonfinite and not torch.isfinite(norm):
            raise Error(f"the norm of the gradients is {norm.item()}, so they cannot be clipped; "
                        f"no parameter was updated. error_if_nonfinite=False of "
                        f"lowtide.FusedUpdate scales by such a norm all the same")


def _real_type(tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """That of the norms of gradients, put together."""
    return functools.reduce(torch.promote_types, {
        tensor.dtype.to_real() if tensor.dtype.is_complex else tensor.dtype for tensor in tensors})
