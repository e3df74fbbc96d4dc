"""What an optimizer that is stepped in pieces takes, known before it is."""

from __future__ import annotations

import dataclasses

import torch

from ..budget.optimizer_step import temporary_bytes
from ..budget.optimizer_trial import groups_of
from .elementwise import state_tensors
from .pieces import PAGE, cut, may_move

#: Pieces that are in memory at one time: one is read, one is updated, one is written.
_PIECES = 3
#: Of an optimizer's state, for each part of a parameter: steps and the like, which stay in memory.
_NUMBERS_BYTES = 16


@dataclasses.dataclass(frozen=True)
class Needs:
    """Bytes of state in slower memory, of state in memory, and of what a step takes for a while;
    ``largest_bytes``: of a piece, at most."""

    moved_bytes: int
    kept_bytes: int
    step_bytes: int
    largest_bytes: int


def needs(optimizer: torch.optim.Optimizer, device: torch.device, largest_bytes: int) -> Needs:
    """Of an optimizer whose state moves in pieces of ``largest_bytes`` where it can."""
    names = {parameter: state_tensors(optimizer, group) for group in optimizer.param_groups
             for parameter in group["params"]
             if parameter.requires_grad or parameter in optimizer.state}
    moving = {parameter: found for parameter, found in names.items()
              if found and may_move(parameter, device)}
    pieces = cut(moving, largest_bytes)
    staying = sum(len(found) * parameter.nbytes for parameter, found in names.items()
                  if parameter not in moving)
    parts = sum(len(piece.parts) for piece in pieces)
    largest = max((piece.bytes for piece in pieces), default=0)
    updated = max((piece.parameter_bytes for piece in pieces), default=0)
    return Needs(sum(piece.bytes for piece in pieces), staying + _NUMBERS_BYTES * parts,
                 _PIECES * (largest + PAGE) + _temporary_bytes(optimizer, updated, device),
                 largest_bytes)


def _temporary_bytes(optimizer: torch.optim.Optimizer, updated_bytes: int,
                     device: torch.device) -> int:
    """Of an update of so many bytes of parameters: as of one parameter, of which no optimizer takes
    less than of several."""
    return max(temporary_bytes(type(optimizer), [([_of_bytes(updated_bytes, parameters)], options)],
                               str(device))
               for parameters, options in groups_of(optimizer) if parameters)


def _of_bytes(size: int, parameters) -> torch.Tensor:
    dtype = parameters[0].dtype
    return torch.empty(size // dtype.itemsize, dtype=dtype, device="meta")
