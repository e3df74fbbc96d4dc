"""The tensors that autograd saves for the backward pass, beside the ticket."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ... import Op
from .captured import Captured


@dataclasses.dataclass(frozen=True)
class SavedTensors:
    """Positions of primals and of forward outputs that the backward half may read.

    Autograd saves them, though the executor has them, to notice when they are changed in between;
    and a second backward pass begins with the primals.
    """

    primals: list[int]
    results: list[int]


def tensors_to_save(captured: Captured) -> SavedTensors:
    """All primals that ops read, but for what the module itself overwrites; of the outputs, which
    lie where the caller could change them, those that ops after the boundary may read."""
    ops = captured.graph.ops
    before, after = ops[:captured.boundary], ops[captured.boundary + 1:]
    read = _read(captured, [*before, *after])
    primals = [position for position, index in enumerate(captured.primals)
               if index in read and position not in captured.updated]
    made = _read(captured, after) - set(captured.primals)
    results = {output.tensor: position for position, output in enumerate(captured.forward_outputs)}
    return SavedTensors(primals, [position for index, position in results.items() if index in made])


def _read(captured: Captured, ops: Sequence[Op]) -> set[int]:
    """Tensors that ops read, and the storages of the views that they read."""
    tensors = captured.graph.tensors
    read = {index for op in ops for index in op.inputs}
    return (read | {tensors[index].alias_of for index in read}) - {None}
