"""Tensors as backends take them: types that Gloo and NCCL lack are viewed or widened.

Gloo and NCCL reduce int8, uint8, int32, int64, float16, bfloat16, float32 and float64. Bytes are
gathered and broadcast whatever they mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.distributed as dist

from ... import InputError

OPS = {"sum": dist.ReduceOp.SUM, "mean": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX,
       "min": dist.ReduceOp.MIN, "product": dist.ReduceOp.PRODUCT}

_AS_IT_IS = {torch.int8, torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16,
             torch.float32, torch.float64}
#: Sums and products in the wider type wrap around as in the narrow one, once they are cast back.
_WIDENED = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}
_COMPLEX = {torch.complex32, torch.complex64, torch.complex128}
_HIGHEST_BIT = torch.iinfo(torch.int64).min


@dataclasses.dataclass(frozen=True)
class Wire:
    """How a tensor of one type is reduced: ``encode`` gives a tensor of a type that backends know,
    with as many rows (its own memory or the tensor's); ``decode`` undoes it."""

    encode: Callable[[torch.Tensor], torch.Tensor]
    decode: Callable[[torch.Tensor], torch.Tensor]


def wire_for(dtype: torch.dtype, op: str, call: str) -> Wire:
    """For the reduction ``op`` of tensors of ``dtype``. Raises InputError, which names ``call``,
    where the two have no meaning together."""
    if op not in OPS:
        raise InputError(f"{call}: op must be one of {', '.join(OPS)}, not {op!r}")
    if op == "mean" and not (dtype.is_floating_point or dtype.is_complex):
        raise InputError(f"{call}: the mean of {_name(dtype)} is no {_name(dtype)}: convert the "
                         f"tensor with .float(), or divide a sum yourself")
    if dtype in _AS_IT_IS:
        return Wire(_same, _same)
    if dtype in _WIDENED:
        return Wire(lambda x: x.to(_WIDENED[dtype]), lambda x: x.to(dtype))
    if dtype == torch.bool and op != "sum":
        return Wire(lambda x: x.view(torch.uint8), lambda x: x.view(torch.bool))
    if dtype == torch.uint64:
        return _as_signed(keeps_order=op in ("max", "min"))
    if dtype in _COMPLEX and op in ("sum", "mean"):
        return Wire(torch.view_as_real, torch.view_as_complex)
    raise InputError(f"{call}: {op!r} of {_name(dtype)} is not defined: {_instead(dtype)}")


def tensor_of_bytes(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def bytes_of(x: torch.Tensor) -> torch.Tensor:
    """The bytes of a contiguous tensor, flat, in the same memory."""
    return x.as_strided((x.numel(),), (1,)).view(torch.uint8)  # one element may have any stride


def shares_memory(x: torch.Tensor, y: torch.Tensor) -> bool:
    return x.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()


def apart(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The result, copied where it lies in the memory of ``x``."""
    return result.clone() if shares_memory(result, x) else result


def with_rows(x: torch.Tensor, rows: int) -> torch.Tensor:
    """``x`` with rows of zeros behind its own, so that it has ``rows``."""
    if len(x) == rows:
        return x
    padded = x.new_zeros((rows, *x.shape[1:]))
    padded[:len(x)] = x
    return padded


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor's values, contiguous and without a graph: in its own memory where it is so."""
    return x.detach().resolve_conj().resolve_neg().contiguous()


def _same(x: torch.Tensor) -> torch.Tensor:
    return x


def _as_signed(keeps_order: bool) -> Wire:
    """Of uint64. Sums and products of int64 have the same bits; order needs another highest bit."""
    if not keeps_order:
        return Wire(lambda x: x.view(torch.int64), lambda x: x.view(torch.uint64))
    return Wire(lambda x: x.view(torch.int64) ^ _HIGHEST_BIT,
                lambda x: (x ^ _HIGHEST_BIT).view(torch.uint64))


def _instead(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return '"max" is true where any is, "min" where all are; x.int() can be summed'
    if dtype in _COMPLEX:
        return "gather the tensors with allgather and combine them yourself"
    return "convert the tensor to a type of more bits, such as with .float()"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
