"""A model as a row of blocks, and the module of those that one stage has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch
from torch import nn

from ... import InputError


class Block(NamedTuple):
    """``prefix``: stands before the keys of the module's state in those of the whole model."""

    prefix: str
    module: nn.Module


def blocks_of(model) -> list[Block]:
    """Of an nn.Sequential its children, of a list its modules in order, whose keys are those of an
    nn.Sequential or nn.ModuleList of them. Raises InputError for anything else, and for tensors
    that two blocks share, as each stage trains its own."""
    if isinstance(model, nn.Sequential):
        found = [Block(f"{name}.", module) for name, module in model.named_children()]
    elif isinstance(model, (list, tuple, nn.ModuleList)):
        found = [Block(f"{index}.", module) for index, module in enumerate(model)]
    else:
        raise InputError(f"a pipeline wants an nn.Sequential or a list of modules, each of which "
                         f"takes what the one before returns, not {type(model).__name__}: put its "
                         f"parts into an nn.Sequential")
    for position, block in enumerate(found):
        if not isinstance(block.module, nn.Module):
            raise InputError(f"block {position} is no torch.nn.Module but "
                             f"{type(block.module).__name__}: a pipeline is made of modules")
    _require_nothing_shared(found)
    return found


def _require_nothing_shared(blocks: Sequence[Block]) -> None:
    owners: dict[int, str] = {}
    for block in blocks:
        named = [*block.module.named_parameters(), *block.module.named_buffers()]
        for key, tensor in named:
            pointer = tensor.untyped_storage().data_ptr() or id(tensor)
            owner = owners.setdefault(pointer, block.prefix)
            if owner != block.prefix:
                raise InputError(f"{block.prefix}{key} is also a tensor of block {owner[:-1]}, and "
                                 f"stages do not share tensors: untie them")


class StageBlocks(nn.Module):
    """Blocks one after another. ``loss_fn``: of the last result and the target, if this stage has
    the loss. ``keys``: of its state, are those of the whole model."""

    def __init__(self, blocks: Sequence[Block], loss_fn: Callable | None = None):
        super().__init__()
        self.blocks = nn.ModuleList(block.module for block in blocks)
        self.prefixes = [block.prefix for block in blocks]
        self.loss_fn = loss_fn

    def forward(self, *values, targets=None):
        for block in self.blocks:
            found = block(*values)
            values = found if isinstance(found, tuple) else (found,)
        if self.loss_fn is not None:
            return self.loss_fn(*values, targets)
        return values[0] if len(values) == 1 else values

    def whole_key(self, key: str) -> str:
        """The key of the whole model, for one of this module's."""
        _, position, rest = key.split(".", 2)
        return self.prefixes[int(position)] + rest

    def trained(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.parameters() if parameter.requires_grad]


def release_parameters(blocks: Iterable[Block]) -> None:
    """Their tensors take no memory on this rank from now on: they are on the device ``meta``."""
    for block in blocks:
        block.module.to(torch.device("meta"))
