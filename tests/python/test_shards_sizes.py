"""Sizes that vary on several ranks, each of which may have another one in the same step."""

import functools
import random
from unittest import mock

import lowtide
import pytest
import torch
from lowtide.pytorch import on_ranks
from lowtide.pytorch.shards.sharding import candidates
from shards_cases import descent, mesh_of, parameters_of, ran
from sweep import sweep
from torch import nn
from torch.export import Dim
from torch.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

WIDTH = 48
LONGEST = 96
#: By step, of each rank.
LENGTHS = [(96, 96), (30, 77), (77, 30), (51, 96), (96, 8), (17, 17)]


class Words(nn.Module):
    """Attends over a length; returns a loss, or with ``scores`` what it is of."""

    def __init__(self, scores=False):
        super().__init__()
        self.scores = scores
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            mixed = torch.softmax(x @ torch.tanh(layer(x)).transpose(1, 2), -1)
            x = nn.functional.layer_norm(x + mixed @ layer(x), (WIDTH,))
        return x if self.scores else (x - 1).abs().mean()


def batches(rank, lengths):
    generator = torch.Generator().manual_seed(100 + rank)
    return [torch.randn(4, of_ranks[rank], WIDTH, generator=generator) for of_ranks in lengths]


def made(scores=False):
    torch.manual_seed(3)
    model = Words(scores)
    return model, descent(model)


def wrapped(budget="50%", scores=False, longest=LONGEST, **options):
    torch._dynamo.reset()
    model, optimizer = made(scores)
    ranges = {"x": {1: Dim("length", min=8, max=longest)}}
    options = {"cache": False, "time_limit": 0.3, "verbose": False} | options
    with mock.patch.object(on_ranks, "candidates", lambda *given: candidates(*given)[:1]):
        return lowtide.wrap(model, (torch.zeros(4, longest, WIDTH),), budget, optimizer=optimizer,
                            mesh=mesh_of(2), dynamic_shapes=ranges, **options), optimizer


def step(model, optimizer, *given):
    losses = []
    for number, x in enumerate(given, 1):
        with model.no_sync() if number < len(given) else torch.enable_grad():
            result = model(x)
            loss = result if result.ndim == 0 else (result - 1).abs().mean()
            loss.backward()
        losses.append(loss.item())
    optimizer.step()
    optimizer.zero_grad()
    return losses


def trained(model, optimizer, steps):
    """By step, the losses, and the bytes by which the budget was exceeded."""
    found = []
    for given in steps:
        losses = step(model, optimizer, *given)
        memory = getattr(model, "memory", None)
        excess = memory and memory.measured_peak - memory.budget
        found.append((losses, excess))
    return found


def beside_ddp(rank, lengths, passes=1, **options):
    """What a wrapped model and one in DistributedDataParallel come to."""
    given = batches(rank, lengths)
    steps = [given[first:first + passes] for first in range(0, len(given), passes)]
    model, optimizer = wrapped(**options)
    found = trained(model, optimizer, steps), parameters_of(model)
    other, optimizer = made(options.get("scores", False))
    other = DistributedDataParallel(other)
    return found, (trained(other, optimizer, steps), parameters_of(other.module))


def require_as_ddp(found):
    for (steps, parameters), (others, other_parameters) in found:
        for (losses, _), (expected, _) in zip(steps, others):
            assert losses == pytest.approx(expected, rel=1e-5)
        for name, parameter in parameters.items():
            torch.testing.assert_close(parameter, other_parameters[name])


def excesses(found):
    return [[excess for _, excess in steps] for (steps, _), _ in found]


def test_ranks_train_on_batches_of_other_lengths(two):
    found = two.run(beside_ddp, LENGTHS)
    require_as_ddp(found)
    for of_rank in excesses(found):
        assert max(of_rank) <= 0


@pytest.mark.parametrize("seed", sweep(range(8), usual=[1]))
def test_random_lengths_passes_and_budgets(two, seed):
    """With ``scores`` the loss is outside of the model, which is not known in the first step."""
    chosen = random.Random(seed)
    passes, scores = chosen.choice([1, 2, 3]), chosen.random() < 0.5
    lengths = [tuple(chosen.randint(8, LONGEST) for _ in range(2)) for _ in range(5 * passes)]
    budget = f"{chosen.choice([55, 70, 85, 100])}%"
    found = two.run(functools.partial(beside_ddp, budget=budget, scores=scores, passes=passes),
                    lengths)
    require_as_ddp(found)
    for of_rank in excesses(found):
        assert max(of_rank[3:]) <= 0


def with_another_budget(rank, lengths):
    """By budget, whether steps are within it, and how many ops the last one runs."""
    model, optimizer = wrapped("90%")
    found = []
    for budget in ("90%", "50%", "90%"):
        model.budget = budget
        steps = trained(model, optimizer, [(batch,) for batch in batches(rank, lengths)])
        found.append((max(excess for _, excess in steps), sum(ran(model).values())))
    return found


def test_all_sizes_follow_another_budget(two):
    for (_, first), (excess, less), (last_excess, again) in two.run(with_another_budget,
                                                                  LENGTHS[1:3]):
        assert less > first == again
        assert max(excess, last_excess) <= 0


def outside_of_the_range(rank):
    model, optimizer = wrapped(longest=40)
    try:
        trained(model, optimizer, [(batch,) for batch in batches(rank, [(30, 96)])])
    except lowtide.Error as error:
        return str(error)
    return ""


def test_a_length_outside_of_the_range_on_one_rank_is_an_error_on_all(two):
    other, here = two.run(outside_of_the_range)
    assert "rank 1 of 2 failed to run a forward pass" in other
    assert "widen the range" in here


def beyond_the_range_and_back(rank):
    """The lengths of rank 1 with its budget after each."""
    model, optimizer = wrapped(longest=40)
    model.budget = "80%"
    found = []
    for batch, budget in zip(batches(rank, [(30, 20), (30, 96), (11, 33), (20, 25)]),
                             ("80%", "80%", "70%", "70%")):
        step(model, optimizer, batch)
        model.budget = budget
        found.append(model.memory.budget)
    return found, parameters_of(model)


@pytest.mark.filterwarnings("ignore")
def test_a_length_beyond_the_range_on_one_rank_changes_no_budget(two):
    (budgets, parameters), (others, other_parameters) = two.run(beyond_the_range_and_back)
    assert budgets == others
    assert budgets[0] == budgets[1] > budgets[2] == budgets[3]
    for name, parameter in parameters.items():
        assert torch.equal(parameter, other_parameters[name])


def refused(rank, sharding):
    with pytest.raises(lowtide.InputError) as error:
        wrapped(sharding=sharding)
    return str(error.value)


def test_shards_have_one_size(two):
    for message in two.run(refused, "full"):
        assert 'sharding="none"' in message
