"""The arguments of a pipeline, checked before any work. Each function raises InputError."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ... import InputError
from ..budget.budget import Budget
from ..common.inputs import tensors_in
from .blocks import Block, blocks_of


def tensors_of(given, why: str) -> tuple[torch.Tensor, ...]:
    """One tensor, or a tuple of them, as a tuple. Raises InputError that begins with ``why``."""
    found = given if isinstance(given, (tuple, list)) else (given,)
    if not found or len(tensors_in(tuple(found))) != len(found):
        raise InputError(f"{why}: a tensor or a tuple of tensors, not {type(given).__name__}")
    return tuple(found)


def checked_blocks(model, stages: int) -> list[Block]:
    blocks = blocks_of(model)
    if len(blocks) < stages:
        raise InputError(f"the model has {len(blocks)} blocks for {stages} stages, and each stage "
                         f"has one or more: use fewer ranks, or divide the model further")
    return blocks


def checked_batch(batch) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise InputError("a pipeline wants a batch as (inputs, targets), as step() gets it")
    inputs, targets = batch
    if not isinstance(targets, torch.Tensor):
        raise InputError(f"targets must be one tensor, not {type(targets).__name__}")
    return tensors_of(inputs, "a pipeline wants inputs"), targets


def checked_cuts(cuts: Sequence[int], blocks: int, stages: int) -> list[int]:
    whole = [0, *cuts, blocks]
    if len(whole) != stages + 1 or any(first >= end for first, end in zip(whole, whole[1:])):
        raise InputError(f"cuts={list(cuts)} are no begins of {stages} stages of {blocks} blocks: "
                         f"give {stages - 1} ascending positions from 1 to {blocks - 1}, or leave "
                         f"them out")
    return whole


def checked_optimizer(optimizer):
    if isinstance(optimizer, torch.optim.Optimizer):
        raise InputError("a pipeline is made before its optimizer, which gets .parameters() of it: "
                         "give the class, such as torch.optim.AdamW, or its name")
    return optimizer


def checked_budget(budget) -> int | None:
    parsed = Budget.parse(budget)
    if parsed.share is not None:
        raise InputError(f"the budget of a pipeline is one of bytes for each rank, not a share "
                         f"({parsed}): what a share is of depends on the cuts")
    return parsed.bytes
