"""Dropout as eager PyTorch computes it on the CPU.

What is traced otherwise draws into memory of its own, in the order of the indices.
"""

from __future__ import annotations

import math

import torch
from torch._prims_common import compute_elementwise_output_logical_to_physical_perm

from ..common.cpu_kernels import has_cpu_kernels

_HALF = (torch.bfloat16, torch.float16)
#: What SELU becomes for large negative inputs, negated (Klambauer et al., 2017).
_ALPHA = 1.7580993408473766


def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """Of half types on the CPU, by ops that round where eager PyTorch's do: the scale 1 / (1 - p)
    becomes a half number before anything is multiplied by it. The fused op that is traced otherwise
    holds a mask of bytes and scales in float32; of other types it has the same bits. Where all is
    dropped eager PyTorch draws nothing."""
    if not train or p == 0 or input.numel() == 0:
        return input.clone()
    if p == 1:
        return input * torch.zeros((), dtype=input.dtype, device=input.device)
    if input.dtype not in _HALF or not has_cpu_kernels(input.device):
        return torch.ops.aten.native_dropout(input, p, train)[0]
    return input * _drawn(input, 1 - p).div_(1 - p)


def alpha_dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """With numbers drawn in the order of the addresses, as eager PyTorch draws them."""
    if not train or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input * torch.zeros((), dtype=input.dtype, device=input.device)
    scale, shift = _alpha_noise(input, p)
    return input.mul(scale).add_(shift)


def alpha_dropout_(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """The same where it lies."""
    if not train or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(torch.zeros((), dtype=input.dtype, device=input.device))
    scale, shift = _alpha_noise(input, p)
    return input.mul_(scale).add_(shift)


def _alpha_noise(input: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Factors and summands that keep the mean and the variance."""
    kept = _drawn(input, 1 - p)
    scale = 1 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
    shift = kept.add(-1).mul_(_ALPHA * scale).add_(_ALPHA * scale * p)
    return kept.mul_(scale), shift


def _drawn(input: torch.Tensor, p: float) -> torch.Tensor:
    """Ones with the probability p, else zeros: laid out as the input is, and drawn in the order of
    the addresses. The op that draws into memory of its own draws in the order of the indices."""
    order, _ = compute_elementwise_output_logical_to_physical_perm(input)
    back = sorted(range(len(order)), key=order.__getitem__)
    return torch.ops.aten.bernoulli.p(input.detach().permute(order), p).permute(back)
