"""Room that plans leave to code between two steps comes when it was needed, and goes again."""

import math
import random
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.autograd import room_between
from lowtide.pytorch.autograd.room_between import RoomBetween
from lowtide.pytorch.wrap import session_of
from torch import nn
from wrap_cases import built

#: What every budget leaves free, in the simulation of uses.
FREE = 10
#: Steps that these tests wait at first.
PATIENCE = 8


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(room_between, "_FIRST_PATIENCE", PATIENCE)


def simulated(uses):
    """What is left after each of these uses, and which of them exceeded the budget."""
    room, left, exceeding = RoomBetween(), [], []
    for use in uses:
        exceeded = use > max(FREE, room.room_bytes)
        exceeding.append(exceeded)
        left.append(room.after_step(use, exceeded=exceeded))
    return left, exceeding


@pytest.mark.parametrize("seed", range(40))
def test_room_follows_random_uses(seed):
    draw = random.Random(seed)
    often, most = draw.choice([0.02, 0.2, 0.8]), draw.choice([15, 100, 10**6])
    uses = [draw.randint(0, most) if draw.random() < often else draw.randint(0, 3)
            for _ in range(300)]
    left, exceeding = simulated(uses)
    least = math.inf  # with which a step exceeded the budget
    for use, exceeded, room in zip(uses, exceeding, left, strict=True):
        least = min(least, use) if exceeded else least
        assert room >= use or use < least
        assert not exceeded or room == use
    assert max(left) <= max(uses)


@pytest.mark.parametrize("use", [11, 1000])
def test_room_for_one_use_is_given_back_after_some_steps(use):
    left, exceeding = simulated([1, use] + [1] * 20)
    assert left == [0] + [use] * PATIENCE + [0] * (21 - PATIENCE)
    assert sum(exceeding) == 1


@pytest.mark.parametrize("period", [1, 2, 7, 8, 9, 30, 100])
def test_what_comes_again_and_again_exceeds_the_budget_ever_more_seldom(period):
    uses = [100 if step % period == 0 else 1 for step in range(period * 40)]
    _, exceeding = simulated(uses)
    assert sum(exceeding) <= 1 + max(0, math.ceil(math.log2(period / PATIENCE)))


def test_large_uses_among_smaller_ones_leave_the_room_of_the_smaller_ones():
    left, exceeding = simulated([100, 1000] + [100] * 20)
    assert left[-1] == 100
    assert sum(exceeding) == 2


def test_uses_of_like_sizes_ask_for_few_plans():
    """Each other room is another plan."""
    draw = random.Random(0)
    left, _ = simulated([draw.randint(600, 1000) for _ in range(1000)])
    assert len(set(left)) <= 20


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[layer for _ in range(6) for layer in (
            nn.Linear(96, 96), nn.GELU())])

    def forward(self, x):
        return self.layers(x).square().mean()


ROWS = 256
USE = 3 * ROWS * 96 * 4


def wrapped_deep(share):
    model = built(Deep)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.randn(ROWS, 96)
    return lowtide.wrap(model, x, share, optimizer=optimizer, time_limit=0.3), optimizer, x


def trained(model, optimizer, x, use):
    """One step, after code that takes so many bytes; the plan that it ran by."""
    torch.empty(use, dtype=torch.uint8)
    model(x).backward()
    optimizer.step()
    optimizer.zero_grad()
    session = session_of(model)
    return session.plan_for(session.planned[0].region)


@pytest.mark.usefixtures("own_cache", "one_thread")
@pytest.mark.parametrize("seed", range(3))
def test_plans_have_room_after_a_use_and_are_those_of_before_some_steps_later(seed):
    draw = random.Random(seed)
    model, optimizer, x = wrapped_deep("85%")
    budget = model.memory.budget
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = [trained(model, optimizer, x, 0) for _ in range(3)][-1]
        seen = 0
        for use in [draw.choice([0, USE // 2, USE]) for _ in range(5)] + [USE, 0, USE]:
            # What comes before a step counts to the one before that.
            trained(model, optimizer, x, use)
            assert use > seen or model.memory.measured_peak <= budget
            seen = max(seen, use)
        assert trained(model, optimizer, x, 0) is not plain
        assert [trained(model, optimizer, x, 0) for _ in range(10)][-1] is plain


@pytest.mark.usefixtures("own_cache", "one_thread")
def test_sizes_of_a_range_have_room_too():
    """All of them, not the largest alone."""
    model = built(Deep)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model = lowtide.wrap(model, torch.randn(512, 96), "90%", optimizer=optimizer, time_limit=0.3,
                         dynamic_shapes={"x": {0: torch.export.Dim("rows", min=16, max=512)}})
    budget = model.memory.budget
    exceeded = []
    for rows in (400, 400, 400, 400, 512, 512, 256, 400):
        trained(model, optimizer, torch.randn(rows, 96), budget // 2)
        exceeded.append(model.memory.measured_peak > budget)
    assert exceeded[1] and not any(exceeded[2:])
