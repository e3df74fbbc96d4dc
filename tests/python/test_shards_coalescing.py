"""Small tensors in one message, and more of them in one collective: where that is chosen."""

import random
from unittest import mock

import lowtide
import pytest
import torch
from lowtide.pytorch import on_ranks
from lowtide.pytorch.dynamo import compile as compiling
from lowtide.pytorch.shards.collectives import COALESCED_GATHER_START, WAITS
from lowtide.pytorch.shards.costs import CollectiveCost, CollectiveCosts, LineOfBytes
from lowtide.pytorch.shards.sharding import _MOST_BUCKET_BYTES, SHARDINGS, candidates
from lowtide.pytorch.wrap import session_of
from shards_cases import (
    StandInGroup,
    adam,
    batches,
    gathers,
    made,
    parameters_of,
    ran,
    trained,
    whole,
    wrapped,
)
from sweep import sweep

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")


def costs_with(latency, per_byte=1e-9, coalesced_bytes=0):
    """Of collectives that nothing hides."""
    line = LineOfBytes(latency, per_byte, latency / 4)
    return CollectiveCosts({start: CollectiveCost(line, line) for start in WAITS},
                           coalesced_bytes=coalesced_bytes)


@pytest.mark.parametrize("seed", sweep(range(40), usual=range(5)))
def test_what_may_be_coalesced_is_compared_with_what_is_not(seed):
    draw = random.Random(seed)
    named = [(f"p{place}", torch.empty(draw.randint(1, 40), draw.randint(1, 2000), device="meta"))
             for place in range(draw.randint(1, 30))]
    latency, per_byte = draw.choice((0.0, 1e-5, 1e-3)), draw.choice((0.0, 1e-9, 1e-8))
    costs = costs_with(latency, per_byte, draw.choice((0, 10_000, 10**9)))
    for sharding in SHARDINGS:
        apart, coalesced = (candidates(named, StandInGroup(2), sharding, costs, coalesce)
                         for coalesce in (False, True))
        assert apart[0] == coalesced[0]  # a budget that is a share means the same
        assert all(layout in coalesced for layout in apart)
        assert all(layout.coalesced_bytes == 0 for layout in apart)
        usual = max(layout.bucket_bytes for layout in apart)
        for layout in coalesced:
            assert layout.bucket_bytes <= _MOST_BUCKET_BYTES
            # What is sent in ten times the latency is not put together with more.
            assert layout.bucket_bytes <= usual or layout.bucket_bytes * per_byte <= 10 * latency
            assert layout.coalesced_bytes == 0 or sum(
                tensor.nbytes <= layout.coalesced_bytes for name, tensor in named
                if name in layout.shards) > 1


def trained_by(rank, ranks, costs, coalesce, budget):
    """Losses, what the model and its optimizer hold, ops by type, predicted seconds."""
    with mock.patch.object(on_ranks, "costs_of", lambda group, device: costs):
        model, optimizer = wrapped("gpt", rank, ranks, sharding="full", budget=budget,
                                   coalesce=coalesce, time_limit=2.0)
    losses = trained(model, optimizer, batches("gpt", rank))
    held = {f"{place}.{name}": whole(value)
            for place, state in optimizer.state_dict()["state"].items()
            for name, value in state.items()}
    return losses, parameters_of(model) | held, ran(model), session_of(
        model).figures.predicted().seconds, lowtide.memory(model).planned_peak


def least_budget(rank, ranks, costs, coalesce):
    with (mock.patch.object(on_ranks, "costs_of", lambda group, device: costs),
          pytest.raises(lowtide.InfeasibleError) as refused):
        wrapped("gpt", rank, ranks, sharding="full", budget=1000, coalesce=coalesce)
    return refused.value.smallest_budget


#: Of the least budget without coalesced messages, with room for all parameters.
ROOMY = 4.0


@pytest.mark.parametrize("share", sweep([None, 1.0, 1.2, 2.0, ROOMY], usual=[ROOMY]))
def test_coalescing_is_faster_and_nothing_else(two, share):
    """The longer a message takes, the more go together, as far as the budget has room."""
    costs = costs_with(1e-2, coalesced_bytes=1 << 20)
    budget = None if share is None else int(
        share * max(two.run(least_budget, 2, costs, False)))
    for coalesced, apart in zip(two.run(trained_by, 2, costs, True, budget),
                             two.run(trained_by, 2, costs, False, budget)):
        assert coalesced[0] == apart[0]
        assert coalesced[1].keys() == apart[1].keys()
        assert all(torch.equal(value, apart[1][name]) for name, value in coalesced[1].items())
        assert coalesced[3] <= apart[3] * (1 + 1e-9)
        assert COALESCED_GATHER_START not in apart[2]
        assert budget is None or max(coalesced[4], apart[4]) <= budget
        assert share is None or share < ROOMY or COALESCED_GATHER_START in coalesced[2]
        assert share is None or share < ROOMY or gathers(coalesced[2]) < gathers(apart[2])


def budget_set_later(rank, ranks, costs):
    with mock.patch.object(on_ranks, "costs_of", lambda group, device: costs):
        pairs = [wrapped("gpt", rank, ranks, sharding="full", budget=None, time_limit=2.0,
                         coalesce=coalesce) for coalesce in (True, False)]
    smallest = []
    for one, _ in pairs:
        with pytest.raises(lowtide.InfeasibleError) as refused:
            lowtide.set_budget(one, 1)
        smallest.append(refused.value.smallest_budget)
    return smallest


def test_a_budget_that_is_set_later_may_be_as_small_as_without(two):
    """Searches that the clock ends differ by a few percent."""
    for coalesced, apart in two.run(budget_set_later, 2, costs_with(1e-2, coalesced_bytes=1 << 20)):
        assert coalesced <= 1.05 * apart


@pytest.mark.sweep
def test_coalescing_never_needs_a_larger_budget(two):
    costs = costs_with(1e-2, coalesced_bytes=1 << 20)
    for coalesced, apart in zip(two.run(least_budget, 2, costs, True),
                             two.run(least_budget, 2, costs, False)):
        assert coalesced <= apart


def test_nothing_is_coalesced_in_one_process():
    model = made("layers")
    with pytest.raises(lowtide.InputError, match="coalesce=False needs a mesh"):
        lowtide.wrap(model, batches("layers", 0)[0], optimizer=adam(model), coalesce=False)
    with pytest.raises(lowtide.InputError, match="unknown coalesce 'no'"):
        lowtide.wrap(model, batches("layers", 0)[0], optimizer=adam(model), coalesce="no")


def traces_of(rank, budget):
    """How often a model was traced to be wrapped."""
    with mock.patch.object(compiling, "trace_joint", wraps=compiling.trace_joint) as trace:
        wrapped("gpt", rank, 2, budget=budget, time_limit=0.1)
    return trace.call_count


@pytest.mark.parametrize("budget, most", [("100%", 2), ("62%", 3)])
def test_layouts_that_are_compared_are_of_one_trace(two, budget, most):
    """The layout that is taken has a trace of its own; so may one that has no plan."""
    assert max(two.run(traces_of, budget)) <= most
