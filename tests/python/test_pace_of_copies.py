"""Copies to slower memory that are not as fast as was measured: plans follow them."""

import json
import random
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.budget.memory import Moved
from lowtide.pytorch.planned_class import session_of
from lowtide.pytorch.plans import graph_plans, slower
from lowtide.pytorch.plans.pace import Pace
from on_device import DEVICE
from torch import nn
from wrap_cases import built, same

STEPS = 8

X = torch.randn(4096, 128, device="cpu", generator=torch.Generator("cpu").manual_seed(5)).to(DEVICE)


def run_step(pace, times_as_long, waited=1.0):
    """One that was planned to take 1 s, 0.5 s of it for copies."""
    pace.note(Moved(1, 1, 0.5 * times_as_long / pace.slowdown, waited), 0.5)
    return pace.end_step(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_copies_that_stay_slower_are_known_after_some_steps_and_faster_ones_too(seed):
    choose, pace = random.Random(seed), Pace()
    slowest = choose.uniform(2, 20)
    for number in range(STEPS):
        assert pace.slowdown == 1
        changed = run_step(pace, choose.uniform(slowest, 2 * slowest))
        assert changed == (number == STEPS - 1)
    assert slowest / 1.2 <= pace.slowdown <= 2.4 * slowest
    while pace.slowdown > 1:
        before = pace.slowdown
        assert [run_step(pace, 1) for _ in range(STEPS)] == [False] * (STEPS - 1) + [True]
        assert pace.slowdown < before
    assert not any(run_step(pace, 0.1) for _ in range(2 * STEPS))  # never faster than measured


@pytest.mark.parametrize("seed", range(20))
def test_seldom_slower_copies_change_nothing(seed):
    choose, pace = random.Random(seed), Pace()
    for number in range(200):
        is_slow = number % STEPS != choose.randrange(STEPS - 1) and number % STEPS
        assert not run_step(pace, choose.uniform(2, 20) if is_slow else choose.uniform(0.1, 1.4))


def test_slower_copies_that_ops_hide_change_nothing():
    pace = Pace()
    assert not any(run_step(pace, 20, waited=0.01) for _ in range(3 * STEPS))


def test_steps_without_copies_say_nothing_of_them():
    pace, changes = Pace(), []
    for _ in range(STEPS):
        pace.note(Moved(), 0.0)  # as a batch of another size
        changes += [pace.end_step(1.0), run_step(pace, 4)]
    assert changes.count(True) == 1 and changes[-1]
    assert pace.slowdown == 4


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(128, 128) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.dropout(layer(x).relu(), 0.2)
        return x.square().mean()


def trained(model, steps):
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        loss = model(X)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
    return losses + [parameter.detach().clone() for parameter in model.parameters()]


class Lanes:
    """Says of each pass that its copies took so many times as long as was measured, and that ops
    waited for them."""

    def __init__(self, monkeypatch):
        self.times_as_long = 1.0
        of_place = slower._Place.note_pass

        def note(place, moved, planned_seconds, apart_bytes):
            seconds = planned_seconds * self.times_as_long / place.pace.slowdown
            of_place(place, Moved(moved.bytes_out, moved.bytes_in, seconds, 1e6), planned_seconds,
                     apart_bytes)

        monkeypatch.setattr(slower._Place, "note_pass", note)
        monkeypatch.setattr(slower, "_speed", lambda *_: ((1e-5, 1e9), (1e-5, 1e9), False))


@pytest.mark.usefixtures("own_cache", "one_thread")
def test_a_training_goes_on_by_plans_for_slower_copies(tmp_path, monkeypatch):
    lanes = Lanes(monkeypatch)
    model = moving(tmp_path, strategy="offload")
    session = session_of(model)
    planned, slowdowns = [], []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for lanes.times_as_long, steps in [(1.0, 3), (4.0, STEPS + 1), (1.0, STEPS + 1)]:
            expected = trained(built(Layers), steps)
            model.load_state_dict(built(Layers).state_dict())
            assert same(trained(model, steps), expected)
            assert model.memory.measured_peak <= model.memory.budget
            slowdowns.append(model.memory.copies_slower)
            planned.append(session.figures.predicted().seconds)
    assert slowdowns == [1.0, 4.0, 1.0]
    assert planned[0] < planned[1] and planned[2] < planned[1]
    said = [str(warning.message) for warning in heard if "copies to" in str(warning.message)]
    assert len(said) == 1 and "take 4.0 times as long" in said[0]
    assert model.memory.moved.bytes_out > 0


@pytest.mark.usefixtures("own_cache", "one_thread")
def test_reruns_take_the_place_of_moves_that_have_become_slow(tmp_path, monkeypatch):
    lanes = Lanes(monkeypatch)
    model = moving(tmp_path)
    trained(model, 2)
    assert model.memory.moved.bytes_out > 0
    lanes.times_as_long = 1e5
    with pytest.warns(UserWarning, match="copies to and from"):
        trained(model, STEPS + 1)
    await_searches(model)
    eager = built_like(model)
    assert same(trained(model, 2), trained(eager, 2))
    assert model.memory.moved.bytes_out == 0
    assert "times as long as was measured" in str(model.memory)


def await_searches(model):
    """Until no better plan is looked for in the background any more."""
    session = session_of(model)
    for region in session.regions:
        for _, plans in region._known.values():
            for some in [plans, *plans._sectioned.values()]:
                for search in some._searches:
                    search.wait()


def plans_in_use(model):
    """Each with its graph and the slower memory of it."""
    session = session_of(model)
    return [(region.priced.graph, session.plan_for(region), region.priced.slower)
            for region in session.regions]


def moving(tmp_path, **options):
    """A wrapped model of which values move."""
    place = str(tmp_path) if DEVICE == "cpu" else "host"
    return lowtide.wrap(built(Layers), (X,), "60%", optimizer="sgd", offload=place, time_limit=0.5,
                        cache=False, **options)


def built_like(model):
    eager = built(Layers)
    eager.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
    return eager


@pytest.mark.usefixtures("own_cache", "one_thread")
def test_a_speed_that_a_person_gives_stays(tmp_path, monkeypatch):
    lanes = Lanes(monkeypatch)
    lanes.times_as_long = 1e5
    place = str(tmp_path) if DEVICE == "cpu" else "host"
    model = lowtide.wrap(built(Layers), (X,), "60%", optimizer="sgd", strategy="offload",
                         offload=lowtide.Offload(place, bandwidth="100GB/s"), time_limit=0.5)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*copies to")
        trained(model, 2 * STEPS)
    assert model.memory.copies_slower == 1.0


def cheaper(model, plan):
    """The same, as if it took hardly longer than a plan that keeps everything."""
    (graph,) = {graph for graph, _, _ in plans_in_use(model)}
    document = json.loads(plan.format())
    return lowtide.Plan.parse(json.dumps(document | {
        "cost": lowtide.replay(graph, lowtide.keep_all(graph)).cost + 1, "lower_bound": None}))


@pytest.mark.usefixtures("own_cache", "one_thread")
def test_what_moves_is_chosen_again_when_a_better_plan_is_found(tmp_path, monkeypatch):
    lanes = Lanes(monkeypatch)
    model = moving(tmp_path)
    trained(model, 2)
    (_, plan, _), = plans_in_use(model)
    better = cheaper(model, plan)
    lanes.times_as_long = 1e5
    monkeypatch.setattr(graph_plans, "plan_within", lambda *_: better)
    with graph_plans._ONE_SEARCH_AT_A_TIME, pytest.warns(UserWarning, match="copies to and from"):
        trained(model, STEPS + 2)
        assert model.memory.moved.bytes_out == 0
    await_searches(model)
    trained(model, 1)
    assert model.memory.moved.bytes_out > 0


@pytest.mark.usefixtures("own_cache", "one_thread")
@pytest.mark.parametrize("moved_before", [True, False])
def test_a_better_plan_without_room_is_not_taken(tmp_path, monkeypatch, moved_before):
    lanes, refused = Lanes(monkeypatch), []
    made = slower.Slower.executor

    def executor(self, graph, plan, device):
        if any(plan.cost == other.cost for other in refused):
            raise lowtide.Error("the disk is full")
        return made(self, graph, plan, device)

    monkeypatch.setattr(slower.Slower, "executor", executor)
    phases, eager = (2, STEPS + 1, 3), built(Layers)
    expected = [trained(eager, steps) for steps in phases]
    model = moving(tmp_path, strategy="offload" if moved_before else None)
    assert same(trained(model, phases[0]), expected[0])
    (_, plan, _), = plans_in_use(model)
    refused.append(cheaper(model, plan))
    monkeypatch.setattr(graph_plans, "plan_within", lambda *_: refused[0])
    lanes.times_as_long = 2.0 if moved_before else 1e5
    for steps, wanted in zip(phases[1:], expected[1:]):
        assert same(trained(model, steps), wanted)
        await_searches(model)
    assert [plan.cost for _, plan, _ in plans_in_use(model)] != [refused[0].cost]
    assert (model.memory.moved.bytes_out > 0) == moved_before


@pytest.mark.usefixtures("own_cache", "one_thread")
def test_plans_that_were_out_of_use_follow_the_pace(tmp_path, monkeypatch):
    """As those of other sizes, other stashes or other budgets."""
    lanes = Lanes(monkeypatch)
    model = moving(tmp_path, strategy="offload")
    trained(model, 2)
    (region,) = session_of(model).regions
    other = region.plans
    budget = next(iter([*other._found, *(key for plans in other._sectioned.values()
                                         for key in plans._found)]))
    region._known.clear()  # so that nobody tells them
    lanes.times_as_long = 4.0
    trained(model, STEPS + 1)
    plan = other.within(budget)
    assert plan.cost == region.priced.slower.retimed(region.priced.graph, plan).cost
