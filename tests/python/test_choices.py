"""Reruns, moves, stashes and slices are chosen together: what may do more is never worse."""

import itertools
import math
import random

import lowtide
import numpy
import pytest
import torch
from lowtide import _core
from lowtide.pytorch.plans import planning
from lowtide.pytorch.wrap import session_of
from slices_cases import Wide, number_of_slices, tokens
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from torch_memory import profiled

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread", "counted_plans"),
              pytest.mark.cpu_only("values move to a disk from the CPU alone")]

#: Strategies without a clock: a graph and a budget have the same plan whenever they are asked.
RERUNS, MOVES = "dtr", "capuchin"
SPEED = "500MB/s"

SAME = 1 + 1e-9


@pytest.fixture
def counted_plans(monkeypatch):
    """Plans by work alone: one that may move values is the better one of both strategies."""
    def search(priced, budget_bytes, settings):
        graph, slower = priced.graph, priced.slower
        answers = [lowtide.plan(graph, budget_bytes, RERUNS, cache=False)]
        if slower is not None:
            answers.append(_core.plan_moving(graph, budget_bytes, MOVES, *slower.places, None,
                                             settings.time_limit, False))
        return min(answers, key=lambda answer: (answer.plan is None, answer.plan.cost if answer.plan
                                                else answer.smallest_budget or 1 << 60))

    monkeypatch.setattr(planning, "_search", search)


class Loss(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x).square().mean()


def rows(draw):
    width = draw.choice([32, 64])
    kinds = [nn.ReLU, nn.Tanh, lambda: nn.Dropout(0.2), lambda: nn.LayerNorm(width),
             lambda: nn.Linear(width, width)]
    layers = [draw.choice(kinds)() for _ in range(draw.randint(2, 4))]
    return Loss(nn.Linear(32, width), *layers, nn.Linear(width, 8)), torch.randn(2, 128, 32)


def pictures(draw):
    layers, channels = [], 3
    for _ in range(draw.randint(1, 2)):
        layers += [nn.Conv2d(channels, 8, 3, padding=1), draw.choice([nn.ReLU, nn.Tanh])(),
                   draw.choice([nn.MaxPool2d(2), nn.AvgPool2d(2), nn.BatchNorm2d(8),
                                nn.Dropout(0.2)])]
        channels = 8
    return Loss(*layers), torch.randn(2, 3, 32, 32)


class Block(nn.Module):
    """Of a transformer, with a dropout of 0.1 in three places."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        rows, time, width = x.shape
        q, k, v = (part.view(rows, time, self.heads, -1).transpose(1, 2)
                   for part in self.mix(self.norms[0](x)).chunk(3, -1))
        weights = F.dropout((q @ k.transpose(-1, -2)).softmax(-1), 0.1)
        mixed = self.out((weights @ v).transpose(1, 2).reshape(rows, time, width))
        x = x + F.dropout(mixed, 0.1)
        return x + F.dropout(self.down(F.relu(self.up(self.norms[1](x)))), 0.1)


def sentences(draw):
    width = draw.choice([16, 32])
    return Loss(*(Block(width, 4) for _ in range(draw.randint(1, 2)))), torch.randn(2, 48, width)


def wrapped(make, seed, budget, allowed, folder):
    """``allowed``: of moves, stashes and slices."""
    moves, stashes, slices = allowed
    torch.manual_seed(seed)
    model, x = make(random.Random(seed))
    offload = {"offload": lowtide.Offload(folder, bandwidth=SPEED)} if moves else {}
    return lowtide.wrap(model, x, budget, optimizer="none", stash="exact" if stashes else None,
                        slices="auto" if slices else 1, cache=False, verbose=False, **offload), x


SUBSETS = list(itertools.product((False, True), repeat=3))
WITHOUT_SLICES = [allowed for allowed in SUBSETS if not allowed[2]]


def planned(make, seed, budget, allowed, folder):
    """The cost of the plan, by which a step is run and counted, and the smallest budget; infinite
    where there is no plan, and 0 where there is one."""
    try:
        model, x = wrapped(make, seed, budget, allowed, folder)
    except lowtide.InfeasibleError as error:
        return math.inf, error.smallest_budget
    session = session_of(model)
    region, = session.regions
    held = sum(value.nbytes for value in (x, *model.state_dict().values()))
    peak, *_ = profiled(lambda: model(x).backward())
    assert held + peak <= budget
    return region.cost(session.plan_for(region)), 0


def require_no_harm(make, seed, budget, folder, subsets=SUBSETS):
    """What each subset is planned to take and needs, where a larger one takes and needs no more."""
    found = {allowed: planned(make, seed, budget, allowed, folder) for allowed in subsets}
    worse = [(more, found[more], less, found[less]) for more in subsets for less in subsets
             if all(one >= other for one, other in zip(more, less))
             and any(one > SAME * other for one, other in zip(found[more], found[less]))]
    assert not worse, budget
    return found


MODELS = [(make, seed) for make in (rows, pictures, sentences) for seed in range(15)]


@pytest.mark.parametrize("make, seed, share", sweep(
    [(*model, share) for model in MODELS for share in (0.5, 0.6, 0.75, 0.9, 1.0)],
    usual=[(rows, 0, 0.75)]))
def test_what_may_do_more_is_never_slower(make, seed, share, tmp_path):
    whole = wrapped(make, seed, "100%", (False,) * 3, tmp_path)[0].memory.budget
    require_no_harm(make, seed, int(share * whole), tmp_path)


@pytest.mark.parametrize("make, seed, subsets", sweep(
    [(*model, subsets) for model in MODELS for subsets in (SUBSETS, WITHOUT_SLICES)],
    usual=[(rows, 0, WITHOUT_SLICES)]))
def test_what_may_do_more_needs_no_more(make, seed, subsets, tmp_path):
    found = require_no_harm(make, seed, 1000, tmp_path, subsets)
    least = min(needed for _, needed in found.values())
    assert require_no_harm(make, seed, least, tmp_path, subsets)[subsets[-1]][0] < math.inf


def choice_of(model):
    """The number of slices, what is stashed, and the plan's cost and bytes."""
    session = session_of(model)
    region, = session.regions
    plan = session.plan_for(region)
    return (number_of_slices(model), {stash.name for stash in region.stashes}, plan.cost,
            plan.arena_bytes)


@pytest.mark.parametrize("make, seed, allowed", sweep(
    [(make, seed, allowed) for make in (rows, pictures, sentences) for seed in range(10)
     for allowed in ((False, True, False), (False, True, True))],
    usual=[(pictures, 0, (False, True, False))]))
def test_another_budget_makes_the_choice_that_it_makes_at_once(make, seed, allowed, tmp_path):
    def wrap(budget):
        return wrapped(make, seed, budget, allowed, tmp_path)[0]

    whole = wrap("100%")
    most = whole.budget
    before = choice_of(whole)
    with pytest.raises(lowtide.InfeasibleError) as refused:
        whole.budget = 1000
    assert choice_of(whole) == before and whole.budget == most
    least = refused.value.smallest_budget
    chosen = set()
    for budget in (least, (least + most) // 2, most, least):
        whole.budget = budget
        chosen.add(repr(choice_of(whole)))
        assert choice_of(whole) == choice_of(wrap(budget))
    assert choice_of(wrap(most)) == before
    assert len(chosen) > 1


@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_slices_are_chosen_again_between_any_two_passes(place):
    """Each pass ends in the slices that it began in; gradients are eager's but for rounding."""
    inputs = tokens(4000, 8, 16), tokens(4000, 8, 16)
    plain, model = Wide(), Wide()
    model.load_state_dict(plain.state_dict())
    plain(*inputs).backward()
    model = lowtide.wrap(model, inputs, "100%", optimizer="none", slices="auto", cache=False,
                         verbose=False)
    with pytest.raises(lowtide.InfeasibleError) as refused:
        model.budget = 1000
    most, least = 2 * model.budget, int(1.1 * refused.value.smallest_budget)
    numbers = []
    for budget in (least, most, least):
        for step in range(3):  # ops are measured between the first two
            model.zero_grad()
            if place == "before" and not step:
                model.budget = budget
            loss = model(*inputs)
            if place == "between" and not step:
                model.budget = budget
            loss.backward()
            if place == "after" and not step:
                model.budget = budget
            assert all(numpy.allclose(ours.grad, theirs.grad, rtol=1e-3, atol=1e-6)
                       for ours, theirs in zip(model.parameters(), plain.parameters()))
        numbers.append(number_of_slices(model))
        assert model.memory.measured_peak <= model.budget == budget
    assert numbers[0] == numbers[2] > numbers[1] == 1
