"""``lowtide.pipeline``: a model whose stages train in several processes, each within a budget."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from ... import InfeasibleError, InputError
from ...arguments import checked_count
from ..budget.budget import Budget
from ..budget.settings import TIME_LIMIT, Settings
from .agreement import Agreement
from .arguments import (
    checked_batch,
    checked_blocks,
    checked_budget,
    checked_cuts,
    checked_optimizer,
)
from .blocks import Block, StageBlocks, release_parameters
from .choose_cuts import PipelineShape, cuts_to_try, measured_blocks, messages_of
from .decided import Decided
from .micro_batches import first_micro_batch
from .planned_stage import PlannedStage
from .rank_bytes import held_bytes, message_bytes
from .rank_plans import StageToPlan, planned_bytes, plans_within
from .report import StageReport
from .schedules import most_waiting, order_of, require_schedule
from .stage_examples import Types, bytes_of, types_between, types_of
from .stages_of_rank import StagesOfRank
from .step_time import StageTimes, step_time
from .waiting_plans import WaitingPlan


def pipeline(
    model: torch.nn.Sequential | Sequence[torch.nn.Module],
    batch: tuple,
    budget: Budget | int | str | None = None,
    *,
    loss_fn: Callable[..., torch.Tensor] | None = None,
    micro_batches: int = 8,
    schedule: str = "1f1b",
    stages_per_rank: int | None = None,
    cuts: Sequence[int] | None = None,
    optimizer: type | str | None = None,
    group: dist.ProcessGroup | None = None,
    time_limit: float = TIME_LIMIT,
    verbose: bool = True,
    report: Callable[[str], None] | None = None,
) -> StagesOfRank:
    """The part of ``model`` that this rank trains. To be called by all ranks of ``group``, with
    the same arguments, after ``torch.distributed.init_process_group``.

    ``model``: an nn.Sequential, or a list of modules, each of which takes what the one before
    returns: tensors. The blocks of other ranks are moved to the device ``meta`` at the end, so that
    they take no memory here. ``batch``: ``(inputs, targets)`` of the sizes that ``step`` will get,
    each a tensor, or for inputs a tuple of them; rows are divided into ``micro_batches`` of one
    size. ``loss_fn(result, target)``: of one micro-batch, planned with the last stage; gradients
    are those of the mean of all micro-batches' losses.

    ``budget``: bytes, or ``"2GiB"``, for each rank: parameters, gradients, what the optimizer holds
    (``optimizer``: its class or name; None counts what Adam would hold), the batch, messages, and
    the values of all micro-batches in flight; None for no limit. Each stage has a plan for as many
    passes as wait at one time in its ``schedule``: ``"1f1b"``, ``"gpipe"`` or
    ``"interleaved1f1b"``, which has ``stages_per_rank`` stages (2) on each rank. ``cuts``: the
    positions of the first blocks of the stages but the first; None: chosen so that the slowest
    stage is as fast as it can be within the budget. ``time_limit``: seconds of planning for each
    graph at most. ``verbose``, ``report``: as of ``lowtide.wrap``.

    Raises on all ranks InputError for arguments that do not fit each other and for what cannot be
    captured, and InfeasibleError that names the stage and the smallest budget that does; the model
    is as it was then.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise InputError("a pipeline wants torch.distributed.init_process_group(...) before it, as "
                         "torchrun's processes call it")
    agreement = Agreement(group)
    per_rank = checked_count("stages_per_rank",
                             stages_per_rank or (2 if schedule == "interleaved1f1b" else 1), 1)
    micro_batches = checked_count("micro_batches", micro_batches, 1)
    require_schedule(schedule, agreement.ranks, per_rank, micro_batches)
    settings = Settings(optimizer=checked_optimizer(optimizer), time_limit=time_limit,
                        verbose=verbose, report=report, stash=None)
    order = order_of(schedule, agreement.ranks, per_rank, micro_batches)
    waiting = {stage: passes for rank in order for stage, passes in most_waiting(rank).items()}
    shape = PipelineShape(agreement.ranks, per_rank, micro_batches, waiting)
    blocks = checked_blocks(model, shape.stages)
    if not callable(loss_fn):
        raise InputError("a pipeline wants loss_fn, a function of the last block's result and the "
                         "targets, such as torch.nn.functional.cross_entropy: it is planned with "
                         "the last stage")
    inputs, targets = checked_batch(batch)
    first = first_micro_batch(inputs, micro_batches, "inputs")
    (target,) = first_micro_batch((targets,), micro_batches, "targets")
    limit = checked_budget(budget)

    def decide() -> tuple[list[Types], list[list[int]]]:
        types = types_between(blocks, first)
        if cuts is not None:
            return types, [checked_cuts(cuts, len(blocks), shape.stages)]
        measured = measured_blocks(blocks, types, first, target, loss_fn, settings)
        return types, cuts_to_try(measured, types, target.nbytes, limit, shape)

    types, (*others, last) = agreement.decided_by_first(decide)

    def planned(chosen: list[int]) -> StagesOfRank:
        return _planned(blocks, Decided(types, chosen, shape, schedule, loss_fn, limit), settings,
                        agreement, first, target)

    for chosen in others:
        with contextlib.suppress(InfeasibleError):  # the same on all ranks
            return planned(chosen)
    return planned(last)


def _planned(blocks: Sequence[Block], decided: Decided, settings: Settings, agreement: Agreement,
             first: tuple[torch.Tensor, ...], target: torch.Tensor) -> StagesOfRank:
    own = decided.stages_of(agreement.rank)
    device = first[0].device
    stages = [_stage(blocks, decided, settings, stage) for stage in own]

    def plan() -> tuple[list[StageReport], int]:
        to_plan = [_to_plan(one, blocks, decided, settings, stage, first, target, agreement.rank)
                   for one, stage in zip(stages, own)]
        plans = plans_within(to_plan, decided.budget_bytes)
        for one, chosen in zip(stages, plans):
            one.use(chosen)
        return ([_report(to_plan[index], plans[index], blocks, decided, own[index], agreement.rank)
                 for index in range(len(own))], planned_bytes(to_plan, plans))

    try:
        found = agreement.gathered(plan)
    except BaseException:
        for one in stages:
            one.let_go()
        raise
    kept = {position for stage in own for position in decided.blocks_of(stage)}
    release_parameters(block for position, block in enumerate(blocks) if position not in kept)
    sends = agreement.seconds_to_send([bytes_of(decided.types[cut]) for cut in decided.cuts[1:]],
                                      device)
    reports = sorted((one for stages_of_rank, _ in found for one in stages_of_rank),
                     key=lambda one: one.stage)
    times = [StageTimes(one.forward, one.backward, send) for one, send in zip(reports, sends)]
    predicted = step_time(order_of(decided.schedule, decided.shape.ranks,
                                   decided.shape.stages_per_rank, decided.shape.micro_batches),
                          times)
    return StagesOfRank(stages, own, decided, agreement, reports, [size for _, size in found],
                    predicted, (types_of(first), types_of((target,))), device)


def _stage(blocks: Sequence[Block], decided: Decided, settings: Settings,
           stage: int) -> PlannedStage:
    module = StageBlocks([blocks[position] for position in decided.blocks_of(stage)],
                         decided.loss_fn if decided.is_last(stage) else None)
    return PlannedStage(module, f"stage {stage}", settings)


def _to_plan(one: PlannedStage, blocks: Sequence[Block], decided: Decided, settings: Settings,
             stage: int, first: tuple[torch.Tensor, ...], target: torch.Tensor,
             rank: int) -> StageToPlan:
    """Captures the stage."""
    device = first[0].device
    inputs = first if stage == 0 else [kind.on(device) for kind in decided.inputs_of(stage)]
    plans = one.capture(inputs, target if decided.is_last(stage) else None)
    own = decided.blocks_of(stage)
    waiting = decided.shape.waiting[stage]
    messages = messages_of(decided.types, own.start, own.stop, target.nbytes)
    held = dataclasses.replace(
        held_bytes([one.blocks], settings.optimizer, str(device)),
        messages=message_bytes(messages, decided.shape.micro_batches, waiting, stage == 0))
    name = (f"stage {stage} (rank {rank}, blocks {blocks[own.start].prefix[:-1]} to "
            f"{blocks[own.stop - 1].prefix[:-1]})")
    return StageToPlan(name, plans, waiting, one.uncounted_bytes, held)


def _report(planned: StageToPlan, plan: WaitingPlan, blocks: Sequence[Block], decided: Decided,
            stage: int, rank: int) -> StageReport:
    names = tuple(blocks[position].prefix[:-1] for position in decided.blocks_of(stage))
    return StageReport(stage, rank, names, planned.waiting, plan.aside_bytes, plan.block_bytes,
                       plan.forward, plan.backward, planned.plans.keeping_all.seconds,
                       planned.plans.reruns_of(plan))
