"""The memory budget solver: exact on random instances, and at work in PyTorch's partitioner."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_graphs import gradients
from lowtide.pytorch.checkpoint_policy.knapsack import knapsack
from lowtide.pytorch.export import memory_budget_solver
from lowtide.pytorch.inductor.predict.estimate import estimate
from torch import nn
from torch._functorch import config
from torch._functorch._activation_checkpointing.knapsack import dp_knapsack, greedy_knapsack

pytestmark = pytest.mark.usefixtures("one_thread")

# Sizes of eighths add up exactly, whatever the order.
ITEMS = st.lists(st.tuples(st.integers(0, 40).map(lambda n: n / 8), st.integers(0, 1000)),
                 max_size=12)


def kept_by_trying_all(sizes, values, capacity):
    every = itertools.product((0, 1), repeat=len(sizes))
    return max(sum(v for v, take in zip(values, taken) if take) for taken in every
               if sum(s for s, take in zip(sizes, taken) if take) <= capacity)


@settings(deadline=None)
@given(ITEMS, st.integers(0, 160).map(lambda n: n / 8))
def test_nothing_that_fits_is_worth_more(items, capacity):
    sizes, values = [size for size, _ in items], [value for _, value in items]
    kept = knapsack(sizes, values, capacity)
    assert kept == sorted(set(kept))
    assert sum(sizes[i] for i in kept) <= capacity
    assert sum(values[i] for i in kept) == kept_by_trying_all(sizes, values, capacity)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 120), st.integers(5, 95), st.randoms(use_true_random=False))
def test_no_less_time_is_kept_than_by_the_solvers_of_pytorch(count, percent, random):
    sizes = [random.choice([1, 1, 4, 16, 3]) * random.choice([64, 128, 250]) for _ in range(count)]
    sizes = [size / sum(sizes) for size in sizes]
    times = [random.randint(1, 10**6) for _ in range(count)]
    budget = percent / 100
    kept = knapsack(sizes, times, budget)
    assert sum(sizes[i] for i in kept) <= budget * (1 + 1e-12)
    for solver in (dp_knapsack, greedy_knapsack):
        _, theirs, _ = solver(sizes, times, budget)
        # "dp" rounds sizes, so that what it keeps may exceed the budget.
        if sum(sizes[i] for i in theirs) <= budget:
            assert sum(times[i] for i in kept) >= sum(times[i] for i in theirs)


def test_many_unlike_items_take_the_bounded_way(monkeypatch):
    """With few states allowed it is still no worse than by ratio."""
    monkeypatch.setattr("lowtide.pytorch.checkpoint_policy.knapsack.MOST_STATES", 3)
    sizes = [((i * 7919) % 1009 + 1) / 1009 for i in range(60)]
    times = [int(1e6 * size) + (i * 31) % 17 for i, size in enumerate(sizes)]
    kept = knapsack(sizes, times, 9.5)
    _, theirs, _ = greedy_knapsack(sizes, times, 9.5)
    assert sum(sizes[i] for i in kept) <= 9.5
    assert sum(times[i] for i in kept) >= sum(times[i] for i in theirs)


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8 + 4 * i, 12 + 4 * i) for i in range(5))

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


@pytest.mark.parametrize("budget", [0.3, 0.7])
def test_the_partitioner_takes_it(monkeypatch, budget):
    torch.manual_seed(0)
    module, inputs, asked = Chain(), (torch.randn(64, 8),), []
    solve = type(memory_budget_solver).__call__

    def watched(self, memory, graph, most, info, nodes):
        kept, again = solve(self, memory, graph, most, info, nodes)
        asked.append((memory, most, nodes, kept, again))
        return kept, again

    monkeypatch.setattr(type(memory_budget_solver), "__call__", watched)
    wanted = gradients(module, module, inputs)
    torch._dynamo.reset()
    with config.patch(activation_memory_budget=budget,
                      activation_memory_budget_solver=memory_budget_solver):
        compiled = torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=False)
        got = gradients(module, compiled, inputs)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    ((memory, most, nodes, kept, again),) = asked
    assert most == budget and again and kept
    assert sorted(kept + again) == list(range(len(nodes)))
    assert sum(memory[i] for i in kept) <= budget
    times = [estimate(node) for node in nodes]
    _, theirs, _ = greedy_knapsack(memory, times, budget)
    assert sum(times[i] for i in kept) >= sum(times[i] for i in theirs)


def test_caches_can_tell_it_apart():
    assert memory_budget_solver.uuid() == type(memory_budget_solver)().uuid()
