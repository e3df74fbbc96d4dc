"""What passes between the blocks of a model for one micro-batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import torch

from ... import InputError
from ..common.inputs import tensors_in
from ..common.module_state import unchanged
from .blocks import Block, StageBlocks


@dataclasses.dataclass(frozen=True)
class TensorType:
    """Of a tensor of one micro-batch. One of floats has a gradient."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @staticmethod
    def of(value: torch.Tensor) -> TensorType:
        return TensorType(tuple(value.shape), value.dtype)

    @property
    def bytes(self) -> int:
        return self.on("meta").nbytes

    def on(self, device: str | torch.device) -> torch.Tensor:
        """Zeros that need a gradient, where there can be one."""
        found = torch.zeros(self.shape, dtype=self.dtype, device=device)
        return found.requires_grad_(self.dtype.is_floating_point)


Types = tuple[TensorType, ...]


def types_of(values: Sequence[torch.Tensor]) -> Types:
    return tuple(map(TensorType.of, values))


def bytes_of(types: Types) -> int:
    return sum(one.bytes for one in types)


def types_between(blocks: Sequence[Block], inputs: Sequence[torch.Tensor]) -> list[Types]:
    """The types of the inputs of each block, and of the results of the last. Each block runs once
    without gradients, and is left as it was. Raises InputError for a block that returns anything
    but tensors."""
    return [types_of(values) for values in _values_between(blocks, inputs)]


def _values_between(blocks: Sequence[Block],
                    inputs: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
    values = tuple(inputs)
    yield values
    for block in blocks:
        stage = StageBlocks([block])
        with unchanged(stage), torch.no_grad():
            found = stage(*values)
        values = found if isinstance(found, tuple) else (found,)
        if len(tensors_in(values)) != len(values) or not values:
            raise InputError(f"block {block.prefix[:-1]} returns "
                             f"{', '.join(type(value).__name__ for value in values) or 'nothing'}: "
                             f"what goes to another stage is a tensor or a tuple of tensors")
        yield values
