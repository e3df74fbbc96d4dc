"""Results that the loss does not use: no work, no memory and no gradient, as in eager PyTorch."""

import copy
import itertools
import random

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn
from wrap_cases import built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Heads(nn.Module):
    """Several heads over one trunk; what they return is up to ``_results``."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            *[layer for _ in range(6) for layer in (nn.Linear(20, 20), nn.Tanh())])
        self.heads = nn.ModuleList(nn.Linear(20, 6) for _ in range(3))

    def forward(self, x):
        trunk = self.trunk(x)
        return self._results([head(trunk) for head in self.heads])

    def _results(self, made):
        return made


class LossAndResults(Heads):
    def _results(self, made):
        return [made[0].pow(2).mean(), *made[1:]]


class Views(Heads):
    """AOTAutograd makes views anew behind its own function."""

    def _results(self, made):
        return [value.view(-1, 3).t() for value in made]


class DropoutAndStatistics(Heads):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(20)

    def forward(self, x):
        return super().forward(nn.functional.dropout(self.norm(x), 0.2))


class StatisticsRead(Heads):
    """Reads what it overwrites, so that its forward pass can't run again."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(20))

    def forward(self, x):
        centred = x * (self.mean + 1)
        self.mean.add_(x.detach().mean(0))
        return super().forward(centred)


MODELS = (Heads, LossAndResults, Views, DropoutAndStatistics, StatisticsRead)


def train(model, used_by_step):
    """Gradients (or None) and parameters after each step of a training with these losses."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    left = []
    for used in used_by_step:
        results = model(torch.randn(64, 20))
        sum(results[position].sum() for position in used).backward()
        left += [copy.deepcopy(parameter.grad) for parameter in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
    return left + [value.detach().clone() for value in model.state_dict().values()]


def equal(one, other):
    return len(one) == len(other) and all(
        a is b if a is None or b is None else torch.equal(a, b) for a, b in zip(one, other))


@pytest.mark.parametrize("make, budget", sweep(
    itertools.product(MODELS, [None, "85%"]),
    usual=[(Heads, None), *((make, "85%") for make in MODELS)]))
def test_gradients_are_none_where_eager_leaves_them_none(make, budget):
    draw = random.Random(7)
    wrapped = lowtide.wrap(built(make), (torch.randn(64, 20),), budget=budget, time_limit=0.3)
    eager = built(make)
    for number in range(3):
        used = [sorted(draw.sample(range(3), draw.randint(1, 3))) for _ in range(3)]
        used = [used[0]] * 3 if number == 0 else used
        assert equal(train(wrapped, used), train(eager, used)), used


@pytest.mark.parametrize("make", MODELS[:-1])
def test_losses_that_share_a_forward_pass(make):
    def two_losses(model):
        torch.manual_seed(1)
        for _ in range(3):
            results = model(torch.randn(64, 20))
            results[0].sum().backward(retain_graph=True)
            results[2].sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    wrapped = lowtide.wrap(built(make), (torch.randn(64, 20),), time_limit=0.3)
    assert equal(two_losses(wrapped), two_losses(built(make)))


def test_a_step_is_planned_for_the_loss_alone():
    wrapped = lowtide.wrap(built(LossAndResults), (torch.randn(64, 20),))
    (region,) = session_of(wrapped).regions
    reached = [gradient.tensor is not None for gradient in region.captured.gradients]
    assert reached.count(True) == 12 + 2  # of the first head
    train(wrapped, [[0]] * 3)
    assert session_of(wrapped).regions == [region]


def test_other_results_than_expected_are_planned_for_once():
    wrapped = lowtide.wrap(built(LossAndResults), (torch.randn(64, 20),))
    train(wrapped, [[1, 2]] * 4)
    after_four = list(session_of(wrapped).regions)
    train(wrapped, [[1, 2]] * 4)
    assert session_of(wrapped).regions == after_four


def test_losses_that_take_turns_are_planned_for_together():
    wrapped = lowtide.wrap(built(Heads), (torch.randn(64, 20),))
    train(wrapped, [[0], [1]] * 3)
    regions = list(session_of(wrapped).regions)
    train(wrapped, [[0], [1]] * 3)
    assert session_of(wrapped).regions == regions and len(regions) <= 4
