"""Orders, cuts and times of pipelines against PyTorch's schedules and brute force."""

import itertools
import math
import random

import pytest
from lowtide.pytorch.pipeline.choose_cuts import PipelineShape, cuts_to_try
from lowtide.pytorch.pipeline.cuts import cheapest_cuts
from lowtide.pytorch.pipeline.rank_bytes import StageBytes, outside_bytes, with_outside
from lowtide.pytorch.pipeline.schedules import Pass, most_waiting, order_of
from lowtide.pytorch.pipeline.stage_estimate import BlockChoice, MeasuredBlock, fastest, smallest
from lowtide.pytorch.pipeline.step_time import StageTimes, step_time

NOTHING = StageBytes(0, 0, 0, 0, 0)


def all_cuts(blocks, stages):
    return [(0, *inner, blocks) for inner in itertools.combinations(range(1, blocks), stages - 1)]


def costs_of(cuts, cost):
    return [cost(first, end, stage) for stage, (first, end) in enumerate(zip(cuts, cuts[1:]))]


@pytest.mark.parametrize("seed", range(60))
def test_cuts_are_those_of_brute_force(seed):
    draw = random.Random(seed)
    blocks = draw.randint(1, 9)
    stages = draw.randint(1, blocks)
    table, most = {}, draw.choice([12, -1])

    def cost(first, end, stage):
        key = first, end, stage
        if key not in table:
            table[key] = math.inf if draw.random() < 0.3 else draw.randint(-12, most)
        return table[key]

    finite = [costs for cuts in all_cuts(blocks, stages)
              if math.inf not in (costs := costs_of(cuts, cost))]
    found = cheapest_cuts(blocks, stages, cost)
    if found is None:
        assert not finite
        return
    assert found[0] == 0 and found[-1] == blocks and found == sorted(set(found))
    costs = costs_of(found, cost)
    assert (max(costs), sum(costs)) == min((max(costs), sum(costs)) for costs in finite)


def random_blocks(draw):
    def choices():
        return tuple(BlockChoice(draw.randint(0, 9), draw.randint(0, 9), draw.randint(1, 20))
                     for _ in range(draw.randint(1, 3)))

    return [MeasuredBlock(choices(), draw.randint(0, 4), NOTHING)
            for _ in range(draw.randint(1, 4))]


@pytest.mark.parametrize("seed", range(60))
def test_cuts_that_need_least_are_tried_last_whatever_the_budget(seed):
    draw = random.Random(seed)
    shape = PipelineShape(2, draw.randint(1, 2), 4, {stage: 4 - stage for stage in range(4)})
    blocks = [block for _ in range(4) for block in random_blocks(draw)]
    types = [()] * (len(blocks) + 1)
    [fastest_ones] = cuts_to_try(blocks, types, 0, None, shape)
    tried = [cuts_to_try(blocks, types, 0, budget, shape) for budget in (1, 100, 1000, 10**6)]
    assert len({tuple(cuts[-1]) for cuts in tried}) == 1
    assert len(tried[0]) == 1 and tried[-1][0] == fastest_ones


@pytest.mark.parametrize("seed", range(60))
def test_a_stage_of_several_blocks_is_as_brute_force_has_it(seed):
    draw = random.Random(seed)
    blocks, waiting = random_blocks(draw), draw.randint(1, 4)
    inputs = sum(block.input_bytes for block in blocks[1:])
    known = []
    for choices in itertools.product(*(block.choices for block in blocks)):
        size = (max(one.transient_bytes for one in choices)
                + waiting * (inputs + sum(one.aside_bytes for one in choices)))
        known.append((size, sum(one.seconds for one in choices)))
    assert smallest(blocks, waiting) == min(size for size, _ in known)
    for limit in {size + more for size, _ in known for more in (-1, 0)}:
        fitting = [seconds for size, seconds in known if size <= limit]
        assert fastest(blocks, waiting, limit) == min(fitting, default=math.inf)


def torch_order(schedule, ranks, per_rank, micro_batches):
    """As torch.distributed.pipelining has it, of an object that only knows its sizes."""
    from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
    from torch.distributed.pipelining.schedules import _ComputationType

    kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B,
            "interleaved1f1b": ScheduleInterleaved1F1B}[schedule]
    found = kind.__new__(kind)
    found._n_microbatches, found._num_stages = micro_batches, ranks
    found.pp_group_size, found.n_local_stages = ranks, per_rank
    found.number_of_rounds = max(1, micro_batches // ranks)
    found.microbatches_per_round = micro_batches // found.number_of_rounds
    order = ({rank: found._calculate_single_rank_operations(rank) for rank in range(ranks)}
             if schedule == "interleaved1f1b" else found._get_pipeline_order())
    return [[Pass(action.stage_index, action.microbatch_index,
                  action.computation_type == _ComputationType.FORWARD)
             for action in order[rank]
             if action is not None and action.microbatch_index is not None]  # of gradients
            for rank in range(ranks)]


CASES = [(schedule, ranks, per_rank, rounds * ranks + extra)
         for schedule, most in [("gpipe", 1), ("1f1b", 1), ("interleaved1f1b", 3)]
         for per_rank in range(1, most + 1) for ranks in (1, 2, 3, 4) for rounds in (0, 1, 2, 3)
         for extra in (0, 1) if rounds * ranks + extra > 0
         and (schedule != "interleaved1f1b"
              or (rounds * ranks + extra) % max(1, (rounds * ranks + extra) // ranks) == 0)]


@pytest.mark.parametrize("case", CASES)
def test_orders_are_those_of_torch(case):
    schedule, ranks, per_rank, micro_batches = case
    order = order_of(*case)
    expected = torch_order(*case)
    if schedule == "1f1b":
        # Torch runs this order, but its listing numbers forward passes of the last stage from 1,
        # and has one for each rank where there are fewer micro-batches.
        order_of_kinds, expected = ([[(step.stage, step.is_forward) for step in rank]
                                     for rank in one] for one in (order, expected))
        assert order_of_kinds == expected or micro_batches < ranks
    else:
        assert order == expected
    waiting = {stage: most for rank in order for stage, most in most_waiting(rank).items()}
    formula = {"gpipe": lambda stage: micro_batches,
                "1f1b": lambda stage: min(micro_batches, ranks - stage)}.get(schedule)
    if formula is not None:
        assert waiting == {stage: formula(stage) for stage in range(ranks)}
    times = [StageTimes(1.0, 2.0)] * (ranks * per_rank)
    found = step_time(order, times)
    assert found.busy == (3.0 * per_rank * micro_batches,) * ranks
    if schedule != "interleaved1f1b":  # the formula of the papers: ranks - 1 of micro_batches + ...
        assert found.seconds == pytest.approx(3.0 * (micro_batches + ranks - 1))
        assert found.bubble == pytest.approx((ranks - 1) / (micro_batches + ranks - 1))


def test_sends_and_slow_stages_take_their_time():
    order = order_of("gpipe", 2, 1, 1)
    found = step_time(order, [StageTimes(1.0, 2.0, 0.5), StageTimes(3.0, 4.0, 0.25)])
    assert found.seconds == pytest.approx(1 + 0.5 + 3 + 4 + 0.25 + 2)
    with pytest.raises(ValueError, match="wait for each other"):
        step_time([[Pass(0, 0, False), Pass(0, 0, True)]], [StageTimes(1.0, 1.0)])


@pytest.mark.parametrize("inside", [0, 1, 999, 1000, 12345, 10**7, 10**9])
def test_a_budget_with_what_it_leaves_to_others_is_the_smallest(inside):
    budget = with_outside(inside)
    assert budget - outside_bytes(budget) >= inside
    assert budget == 0 or budget - 1 - outside_bytes(budget - 1) < inside
