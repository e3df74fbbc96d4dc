"""Random models, shardings, optimizers, budgets and loops on several ranks."""

import dataclasses
import math

import pytest
import torch
from on_ranks import Ranks
from shards_random import budgets_of, drawn, of_ddp, within_budget
from sweep import sweep

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

#: Of numbers in 16 bits, which differ where sums are rounded otherwise.
HALF = {"rtol": 0.05, "atol": 0.02}
WHOLE = {"rtol": 1e-3, "atol": 1e-4}

#: Ranks, or copies of shards and shards, and seeds.
CASES = [(2, seed) for seed in range(20)] + [(ranks, seed) for ranks in (3, 4, (2, 2))
                                             for seed in range(20, 32)]
#: How often a loop may tell, by a warning, that later steps need more than the first one.
LEARNT = 4


@pytest.fixture(scope="module")
def ranks(two):
    """So many processes, which are started when they are asked for."""
    others = {number: Ranks(number) for number in {number_of(ranks) for ranks, _ in CASES} - {2}}
    yield {2: two, **others}
    for group in others.values():
        group.close()


def number_of(ranks):
    return math.prod(ranks) if isinstance(ranks, tuple) else ranks


def trained_within(group, case, ranks):
    """Twice by each rank, where the budget is enough for all steps of the loop."""
    known = group.run(budgets_of, case, ranks)
    [least], most = {least for least, _ in known}, max(most for _, most in known)
    for _ in range(LEARNT):
        found = group.run(within_budget, case, ranks, least, most)
        named = max(trained.named for trained in found)
        if named <= least:
            break
        least = named
    return list(zip(found, group.run(within_budget, case, ranks, least, most)))


def require_close(trained, losses, parameters, case):
    """Adam makes numbers of any size of gradients that are zero but for rounding, as those of a
    bias that changes nothing."""
    tolerances = HALF if case.is_half else WHOLE
    torch.testing.assert_close(torch.tensor(trained.losses), torch.tensor(losses), **tolerances)
    for name, parameter in parameters.items() if case.optimizer != "adamw" else ():
        torch.testing.assert_close(trained.parameters[name], parameter, **tolerances)


@pytest.mark.parametrize("mesh, seed", sweep(CASES, usual=[(2, 15)]))
def test_ranks_train_as_ddp_does_within_the_budget(ranks, mesh, seed):
    case, group = drawn(seed), ranks[number_of(mesh)]
    expected = group.run(of_ddp, case)
    for (first, second), (losses, parameters) in zip(trained_within(group, case, mesh), expected):
        for trained in (first, second):
            assert (trained.over, trained.said) == ([], [])
            require_close(trained, losses, parameters, case)
        assert first.losses == second.losses
        for name, parameter in first.parameters.items():
            assert torch.equal(parameter, second.parameters[name])


#: By two ranks, whose sums have one order however many gradients go together.
BUCKETS = [(seed, bucket_bytes, coalesced_bytes) for seed in range(20)
           for bucket_bytes in (1 << 14, 1 << 24) for coalesced_bytes in (0, 1 << 24)]


@pytest.mark.parametrize("seed, bucket_bytes, coalesced_bytes",
                         sweep(BUCKETS, usual=[(15, 1 << 24, 1 << 24)]))
def test_tensors_that_go_together_are_the_same_bits(ranks, seed, bucket_bytes, coalesced_bytes):
    single = dataclasses.replace(drawn(seed), bucket_bytes=0, coalesced_bytes=0)
    case = dataclasses.replace(single, bucket_bytes=bucket_bytes, coalesced_bytes=coalesced_bytes)
    for (first, _), (second, _) in zip(trained_within(ranks[2], case, 2),
                                       trained_within(ranks[2], single, 2)):
        assert first.over == second.over == []
        assert first.losses == second.losses
        for name, parameter in first.parameters.items():
            assert torch.equal(parameter, second.parameters[name])
