"""Which blocks each stage of a pipeline has: chosen by what each block costs alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ..budget.settings import Settings
from .blocks import Block, StageBlocks
from .cuts import cheapest_cuts
from .planned_stage import PlannedStage
from .rank_bytes import Messages, StageBytes, held_bytes, message_bytes, outside_bytes
from .stage_estimate import BlockChoice, MeasuredBlock, choices_of, fastest, smallest
from .stage_examples import Types, bytes_of


@dataclasses.dataclass(frozen=True)
class PipelineShape:
    """Of a schedule. ``waiting``: by stage, how many passes wait at one time."""

    ranks: int
    stages_per_rank: int
    micro_batches: int
    waiting: Mapping[int, int]

    @property
    def stages(self) -> int:
        return self.ranks * self.stages_per_rank


def measured_blocks(blocks: Sequence[Block], types: Sequence[Types],
                    inputs: Sequence[torch.Tensor], targets: torch.Tensor,
                    loss_fn: Callable, settings: Settings) -> list[MeasuredBlock]:
    """What each block takes and costs, with plans for several limits. ``types``: between blocks.
    Blocks whose graphs are the same are planned once."""
    known: dict[str, tuple[BlockChoice, ...]] = {}
    found = []
    for position, block in enumerate(blocks):
        is_last = position == len(blocks) - 1
        own = StageBlocks([block], loss_fn if is_last else None)
        values = inputs if position == 0 else [one.on(inputs[0].device) for one in types[position]]
        choices = (_choices(own, values, targets, settings, known) if own.trained()
                   else (BlockChoice(0, bytes_of(types[position + 1]), 0.0),))
        found.append(MeasuredBlock(choices, bytes_of(types[position]),
                                   held_bytes([block.module], settings.optimizer,
                                              str(inputs[0].device))))
    return found


def _choices(own: StageBlocks, values: Sequence[torch.Tensor], targets: torch.Tensor,
             settings: Settings, known: dict[str, tuple[BlockChoice, ...]]
             ) -> tuple[BlockChoice, ...]:
    stage = PlannedStage(own, "a block", settings)
    try:
        plans = stage.capture(values, targets)
        graph = plans.graph.format()
        if graph not in known:
            for waiting in (1, 4):
                least = plans.smallest_bytes(waiting)
                plans.within((least + plans.keeping_all.bytes_of(waiting)) // 2, waiting)
            known[graph] = choices_of(plans.found)
        return known[graph]
    finally:
        stage.let_go()


def cuts_to_try(blocks: Sequence[MeasuredBlock], types: Sequence[Types], target_bytes: int,
                budget_bytes: int | None, shape: PipelineShape) -> list[list[int]]:
    """First the cuts by which the slowest stage takes the least time, with plans of the blocks that
    fit the budget of each rank; of equal ones those of the least time in all. Then, where there is
    a budget, those by which the stage that lacks the most lacks the least, whatever the budget is:
    the plans of whole stages, which come later, decide, and may need more than those of blocks.

    Each of several stages on a rank may have its part of the budget.
    """
    own_budget = math.inf if budget_bytes is None else (
        (budget_bytes - outside_bytes(budget_bytes)) // shape.stages_per_rank)

    def left(first: int, end: int, stage: int) -> float:
        return own_budget - _held(blocks, types, target_bytes, shape, first, end, stage).fixed

    def seconds(first: int, end: int, stage: int) -> float:
        available = left(first, end, stage)
        if math.isinf(available):
            return sum(min(choice.seconds for choice in block.choices)
                       for block in blocks[first:end])
        return fastest(blocks[first:end], shape.waiting[stage], int(available))

    def lack(first: int, end: int, stage: int) -> float:
        return smallest(blocks[first:end], shape.waiting[stage]) - left(first, end, stage)

    measures = [seconds] if budget_bytes is None else [seconds, lack]
    found = [cheapest_cuts(len(blocks), shape.stages, measure) for measure in measures]
    return [cuts for index, cuts in enumerate(found)
            if cuts is not None and cuts not in found[:index]]


def _held(blocks: Sequence[MeasuredBlock], types: Sequence[Types], target_bytes: int,
          shape: PipelineShape, first: int, end: int, stage: int) -> StageBytes:
    total = StageBytes(0, 0, 0, 0, message_bytes(
        messages_of(types, first, end, target_bytes), shape.micro_batches, shape.waiting[stage],
        is_first=first == 0))
    for block in blocks[first:end]:
        total += block.held
    return total


def messages_of(types: Sequence[Types], first: int, end: int, target_bytes: int) -> Messages:
    """Of a stage with blocks [first, end)."""
    is_last = end == len(types) - 1
    return Messages(bytes_of(types[first]), 0 if is_last else bytes_of(types[end]),
                    target_bytes if is_last else 0)
