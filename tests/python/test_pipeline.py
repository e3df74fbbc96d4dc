"""Pipelines of real processes: one process's bits, and peaks within the budget of each rank."""

import copy
import pathlib
import random
import sys

import lowtide
import pytest
import torch
import torch.distributed as dist
from group_processes import printed_by, run_ranks
from pipeline_models import (
    Joined,
    TwoResults,
    batch_of,
    eager_steps,
    loss_fn,
    pipelined_steps,
    residuals,
)
from sweep import sweep
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.cpu_only("the processes are connected by Gloo")]

#: Seconds of planning for each graph.
BRIEF = 0.3


def smallest_budget(model, batch, options):
    """Of all ranks."""
    with pytest.raises(lowtide.InfeasibleError, match="the smallest budget that does") as error:
        lowtide.pipeline(copy.deepcopy(model), batch, 1, loss_fn=loss_fn, verbose=False,
                         optimizer="sgd-momentum", **options)
    return error.value.smallest_budget


def within_budgets(model, batch, steps, options, parts):
    """What ``pipelined_steps`` finds without a budget and with some between the smallest that does
    and the largest planned peak."""
    options = {"time_limit": BRIEF, **options}
    free = pipelined_steps(copy.deepcopy(model), batch, steps, options)
    planned = [None] * dist.get_world_size()
    dist.all_gather_object(planned, free[3]["planned"])
    found = [(None, free)]
    if parts:
        least = smallest_budget(model, batch, options)
        for part in parts:
            budget = least + int(part * max(0, max(planned) - least))
            found.append((budget, pipelined_steps(copy.deepcopy(model), batch, steps,
                                                  {**options, "budget": budget})))
    return found


def all_cases(cases):
    return [within_budgets(*case) for case in cases]


def check(case, by_rank):
    """Of a case, what each rank found: one process's bits, keys of the whole model, and peaks."""
    model, batch, steps, options, _ = case
    draws = any(isinstance(module, nn.Dropout) and module.p for module in model.modules())
    losses, gradients, state = (without_budget(by_rank) if draws else eager_steps(
        model, batch, options["micro_batches"], steps))
    for number in range(len(by_rank[0])):
        keys = []
        for found in by_rank:
            budget, (own_losses, own_gradients, own_state, figures) = found[number]
            assert torch.equal(own_losses, losses)
            assert own_gradients.keys() <= gradients.keys() and own_state.keys() <= state.keys()
            assert all(torch.equal(value, gradients[key]) for key, value in own_gradients.items())
            assert all(torch.equal(value, state[key]) for key, value in own_state.items())
            assert budget is None or figures["planned"] <= budget
            assert figures["peak"] <= (budget or figures["planned"])
            assert 0 < figures["bubble"] < 1 and 0 < figures["measured"] < 1
            keys += own_state
        assert sorted(keys) == sorted(state)


def without_budget(by_rank):
    """Of all ranks together, what they found first. Each rank draws its own random numbers, so
    that one process finds others."""
    gradients, state = {}, {}
    for found in by_rank:
        losses, own_gradients, own_state, _ = found[0][1]
        gradients |= own_gradients
        state |= own_state
    return losses, gradients, state


def reruns(by_rank, number):
    """By stage, how many ops run again; whichever rank says it."""
    (found,) = {str(of_rank[number][1][3]["reruns"]) for of_rank in by_rank}
    assert found == str(by_rank[0][number][1][3]["reruns"])
    return [len(names) for names in by_rank[0][number][1][3]["reruns"]]


def test_two_ranks_have_the_bits_of_one_and_keep_their_budget(tmp_path):
    deep, batch = residuals(4, 16, 64), batch_of(128, 16)
    with_two = nn.Sequential(TwoResults(16), TwoResults(16), TwoResults(16), Joined(),
                             nn.Linear(16, 16))
    cases = [
        (deep, batch, 2, {"micro_batches": 4, "cuts": [2]}, (0.2,)),
        (deep, batch, 1, {"micro_batches": 4, "schedule": "interleaved1f1b"}, (0.2,)),
        (residuals(2, 16, 64, dropout=0.5), batch_of(48, 16), 1,
         {"micro_batches": 3, "cuts": [1], "schedule": "gpipe"}, (0.2,)),
        (with_two, batch_of(24, 16), 1, {"micro_batches": 3, "cuts": [2]}, ()),
    ]
    by_rank = run_ranks(all_cases, 2, tmp_path, cases)
    for number, case in enumerate(cases):
        check(case, [found[number] for found in by_rank])
    first = [found[0] for found in by_rank]
    assert first[0][0][1][3]["waiting"] == [2, 1]
    assert reruns(first, 0) == [0, 0]
    # The first stage holds two passes, and reruns; the last holds one, and has room.
    tight = reruns(first, 1)
    assert tight[0] > tight[1]


def random_case(seed):
    draw = random.Random(seed)
    ranks = draw.choice([2, 2, 3])
    schedule = draw.choice(["1f1b", "gpipe", "interleaved1f1b"])
    stages = ranks * (2 if schedule == "interleaved1f1b" else 1)
    micro_batches = ranks * draw.randint(1, 3)
    width = draw.choice([8, 12])
    model = residuals(draw.randint(stages, stages + 3), width, draw.choice([16, 40]), seed=seed)
    batch = batch_of(micro_batches * draw.choice([4, 32]), width, seed)
    options = {"micro_batches": micro_batches, "schedule": schedule}
    return ranks, (model, batch, draw.randint(1, 2), options, (draw.random(),))


@pytest.mark.parametrize("seed", sweep(range(10), usual=()))
def test_random_pipelines_have_the_bits_of_one_process(tmp_path, seed):
    ranks, case = random_case(seed)
    check(case, [found[0] for found in run_ranks(all_cases, ranks, tmp_path, [case])])


def refused(model, batch, match, error=lowtide.InputError, **options):
    settings = {"loss_fn": loss_fn, "micro_batches": 2, "time_limit": BRIEF, "verbose": False}
    with pytest.raises(error, match=match):
        lowtide.pipeline(model, batch, **{**settings, **options})


class Breaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else x


def refusals():
    model, batch = residuals(3, 8, 16), batch_of(8, 8)
    untied = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    untied[1].weight = untied[0].weight
    before = copy.deepcopy(model.state_dict())
    refused(model[:1], batch, "has 1 blocks for 2 stages")
    refused(model, batch, "wants loss_fn", loss_fn=None)
    refused(model, batch, "8 rows, which are not divided into 3", micro_batches=3)
    refused(model, batch, "unknown schedule 'zigzag'", schedule="zigzag")
    refused(model, batch, "one stage on each rank", stages_per_rank=2)
    refused(model, batch, "not a share", budget="60%")
    refused(model, batch, "no begins of 2 stages of 3 blocks", cuts=[3])
    refused(model, batch, "is made before its optimizer",
            optimizer=torch.optim.SGD(model.parameters(), lr=1))
    refused(untied, batch, "also a tensor of block 0")
    refused(nn.Linear(8, 8), batch, "wants an nn.Sequential")
    refused(model, batch[0], "as \\(inputs, targets\\)")
    refused(nn.Sequential(Breaks(), nn.Linear(8, 8)), batch, "cannot be traced as one graph",
            cuts=[1])
    refused(nn.Sequential(nn.Tanh(), nn.Linear(8, 8)), batch, "nothing of stage 0 needs a gradient",
            cuts=[1])
    refused(model, batch, r"stage \d \(rank \d, blocks \d to \d\) cannot train within 1000 B.* "
            r"micro-batches in flight", lowtide.InfeasibleError, budget=1000, cuts=[1])
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    pipe = lowtide.pipeline(model, batch, loss_fn=loss_fn, micro_batches=2, time_limit=BRIEF,
                            cuts=[2], verbose=False)
    with pytest.raises(lowtide.InputError, match="inputs have 7 rows, which are not divided"):
        pipe.step(batch[0][:7], batch[1][:7])
    missing = (None, batch[1]) if dist.get_rank() == 0 else (batch[0], None)
    with pytest.raises(lowtide.InputError, match=r"(first|last) rank of a pipeline wants"):
        pipe.step(*missing)
    with pytest.raises(lowtide.InputError, match="6x8, and the pipeline was planned for float32 "
                                                 "of shape 4x8"):
        pipe.step(*batch_of(12, 8))
    pipe.load_state_dict(before)
    with pytest.raises(lowtide.InputError, match="the state has no"):
        pipe.load_state_dict({})
    released = [key for key, value in model.state_dict().items() if value.is_meta]
    return sorted(pipe.state_dict()), released, pipe.cuts, pipe.explain()


def test_what_does_not_fit_is_said_on_all_ranks(tmp_path):
    first, second = run_ranks(refusals, 2, tmp_path)
    assert first[0] == sorted(second[1]) and second[0] == sorted(first[1])
    assert first[2] == second[2] == [2] and first[3] == second[3]
    assert "in flight" in first[3] and "stage" in first[3]


@pytest.mark.sweep
def test_the_example_has_the_bits_of_one_process():
    example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "pipeline.py"
    printed = printed_by([sys.executable, example, "--layers", "2", "--width", "16", "--batch", "8",
                          "--steps", "1", "--budget", "1MiB", "--planning-seconds", "0.3"])
    assert "parameters have the same bits as in one process" in printed
    assert "Budget of each rank: 1048576 bytes" in printed


def test_without_a_process_group_there_is_no_pipeline():
    with pytest.raises(lowtide.InputError, match="init_process_group"):
        lowtide.pipeline(residuals(2), batch_of(8, 16), loss_fn=loss_fn)
