"""The forms in which values are held."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from ... import _runtime  # noqa: F401 -- it defines the ops lowtide::*
from .stash import Form, bits_bytes

_aten = torch.ops.aten

#: Elements of a block of ``lowtide::to_blocks``, and bytes of its scale.
_BLOCK, _SCALE_BYTES = 256, 4


def _hold_bits(run, value: fx.Node) -> list[fx.Node]:
    return [run(torch.ops.lowtide.to_bits.default, value)]


def _widen_bits(run, held: Sequence[fx.Node], like: torch.Tensor) -> fx.Node:
    return run(torch.ops.lowtide.from_bits.default, held[0], list(like.shape),
               list(like.stride()))


#: Of booleans.
BITS = Form("bits", True, _hold_bits, _widen_bits, bits_bytes)


def drawn(divisor: float | None) -> Form:
    """Of zeros and ones that were drawn, divided by that number afterwards."""
    def hold(run, value):
        return [run(torch.ops.lowtide.passing_bits.default, value, 0)]

    def widen(run, held, like):
        ones = run(_aten._to_copy.default, _widen_bits(run, held, like), dtype=like.dtype)
        return ones if divisor is None else run(_aten.div.Tensor, ones, divisor)

    return Form("bits", True, hold, widen, bits_bytes)


def window_places(first: int, step: Sequence[int], unit: Sequence[int],
                  sizes: Sequence[int]) -> Form:
    """Of indices of pooling: ``src/stash/windows.h`` says what the numbers are."""
    geometry = (first, list(step), list(unit), list(sizes))

    def hold(run, value):
        return [run(torch.ops.lowtide.window_places.default, value, *geometry)]

    def widen(run, held, like):
        return run(torch.ops.lowtide.window_indices.default, held[0], *geometry)

    return Form("bytes", True, hold, widen, torch.Tensor.numel)


def narrow(limit: int) -> Form | None:
    """Of integers from 0 on, below a limit; None where that takes all bytes of an int64."""
    for dtype, values in ((torch.uint8, 1 << 8), (torch.int16, 1 << 16), (torch.int32, 1 << 31)):
        if limit <= values:
            return _narrow(dtype, wraps=limit - 1 > torch.iinfo(dtype).max)
    return None


def _narrow(dtype: torch.dtype, wraps: bool) -> Form:
    def widen(run, held, like):
        wide = run(_aten._to_copy.default, held[0], dtype=torch.int64)
        return run(_aten.bitwise_and.Scalar, wide, (1 << 8 * dtype.itemsize) - 1) if wraps else wide

    return Form("bytes" if dtype == torch.uint8 else str(dtype).removeprefix("torch."), True,
                lambda run, value: [run(_aten._to_copy.default, value, dtype=dtype)], widen,
                lambda value: value.numel() * dtype.itemsize)


def lossy(kind: str, dtype: torch.dtype) -> Form | None:
    """Of activations of that type; None where the kind holds them in no fewer bits."""
    if kind == "int8":
        return Form("int8", False, _hold_blocks, _widen_blocks, _blocks_bytes)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}[kind]
    if dtype.itemsize <= half.itemsize:
        return None
    return Form(kind, False,
                lambda run, value: [run(torch.ops.lowtide.to_finite.default, value, half)],
                lambda run, held, like: run(_aten._to_copy.default, held[0], dtype=like.dtype),
                lambda value: value.numel() * half.itemsize)


def _hold_blocks(run, value: fx.Node) -> list[fx.Node]:
    return run(torch.ops.lowtide.to_blocks.default, value)


def _widen_blocks(run, held: Sequence[fx.Node], like: torch.Tensor) -> fx.Node:
    return run(torch.ops.lowtide.from_blocks.default, *held, like.dtype)


def _blocks_bytes(value: torch.Tensor) -> int:
    return value.numel() + -(-value.numel() // _BLOCK) * _SCALE_BYTES
