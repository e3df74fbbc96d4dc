"""A batch as micro-batches of one size."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ... import InputError
from .stage_examples import Types, types_of


def first_micro_batch(values: Sequence[torch.Tensor], micro_batches: int,
                      what: str) -> tuple[torch.Tensor, ...]:
    """Of a batch. Raises InputError where it is not divided into so many of one size."""
    for value in values:
        rows = value.shape[0] if value.dim() else 0
        if rows < micro_batches or rows % micro_batches:
            raise InputError(f"{what} have {rows} rows, which are not divided into {micro_batches} "
                             f"micro-batches of one size: choose another number, or leave the rest "
                             f"of the batch out (drop_last=True of a DataLoader)")
    return tuple(value[:value.shape[0] // micro_batches] for value in values)


def require_alike(values: Sequence[torch.Tensor], expected: Types, micro_batches: int,
                  what: str) -> None:
    """Raises InputError for a batch of other shapes than the pipeline was planned for."""
    found = types_of(first_micro_batch(values, micro_batches, what))
    if found != expected:
        raise InputError(f"{what} of a micro-batch are {_described(found)}, and the pipeline was "
                         f"planned for {_described(expected)}: give batches of one size, or make "
                         f"another pipeline for these")


def _described(types: Types) -> str:
    return ", ".join(f"{str(one.dtype).removeprefix('torch.')} of shape "
                     f"{'x'.join(map(str, one.shape)) or 'one number'}" for one in types)
