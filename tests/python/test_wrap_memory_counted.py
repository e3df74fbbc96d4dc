"""The measured peak is what somebody else counts: here PyTorch's profiler."""

import contextlib
import itertools
import random
import types

import lowtide
import pytest
import torch
from lowtide import _runtime
from lowtide.pytorch.autograd.meter import Meter
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from torch_memory import profiled
from wrap_cases import built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

ROWS, WIDTH, CLASSES = 128, 96, 400


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[layer for _ in range(6) for layer in (
            nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1))])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.body(x))


class WithLoss(Classifier):
    def forward(self, x):
        scores = super().forward(x)
        return F.cross_entropy(scores, x.argmax(1)), scores


def loss_of(result, x):
    return result[0] if isinstance(result, tuple) else F.cross_entropy(result, x.argmax(1))


class EveryFourth(Classifier):
    """Its result has gaps, and so have the gradients that the graph wants."""

    def forward(self, x):
        return super().forward(x)[:, ::4]


OPTIMIZERS = {"adamw": torch.optim.AdamW,
              "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1)}


@pytest.mark.parametrize("make, optimizer, budget", sweep(
    itertools.product([Classifier, WithLoss], OPTIMIZERS, [None, "90%"]),
    usual=[(Classifier, "adamw", "90%"), (Classifier, "momentum", None),
           (WithLoss, "adamw", None), (WithLoss, "momentum", "90%")]))
def test_the_measured_peak_is_the_counted_one(make, optimizer, budget):
    model = built(make)
    trained_by = OPTIMIZERS[optimizer](model.parameters())
    wrapped = lowtide.wrap(model, torch.randn(ROWS, WIDTH), budget=budget, optimizer=trained_by,
                           time_limit=0.3)
    x = torch.randn(ROWS, WIDTH)

    def step():
        loss_of(wrapped(x), x).backward()
        trained_by.step()
        trained_by.zero_grad()

    for _ in range(4):
        step()
    for region in session_of(wrapped).regions:
        region.executors.release_idle()  # the profiler sees no end of what began before it
    state = [value for state in trained_by.state.values() for value in state.values()]
    existing = sum(tensor.nbytes for tensor in [*model.parameters(), *state, x])
    counted = existing + profiled(step)[0]
    step()
    assert abs(wrapped.memory.measured_peak - counted) <= 64


def drawn(seed):
    """A model with layers of random widths, and a batch."""
    chosen = random.Random(seed)
    widths = [chosen.randrange(100, 400) for _ in range(chosen.randrange(3, 7))]
    model = nn.Sequential(*[layer for pair in zip(widths, widths[1:])
                            for layer in (nn.Linear(*pair), nn.GELU())])
    return model, torch.randn(chosen.choice([16, 128]), widths[0])


@pytest.mark.parametrize("optimizer, foreach, seed", sweep(
    itertools.product(["adamw", "momentum"], [False, True], range(6)),
    usual=[("adamw", False, 0), ("adamw", True, 1), ("momentum", True, 2)]))
def test_without_a_budget_the_peak_of_the_optimizers_step_is_predicted(optimizer, foreach, seed):
    model, x = drawn(seed)
    trained_by = (torch.optim.AdamW(model.parameters(), foreach=foreach) if optimizer == "adamw"
                  else torch.optim.SGD(model.parameters(), 0.01, 0.9, weight_decay=0.1,
                                       foreach=foreach))
    wrapped = lowtide.wrap(model, x, optimizer=trained_by, time_limit=0.3)

    def step():
        wrapped(x).mean().backward()
        trained_by.step()
        trained_by.zero_grad()

    for _ in range(2):
        step()
    session_of(wrapped).release()  # the profiler sees no end of what began before it
    state = [value for state in trained_by.state.values() for value in state.values()]
    existing = sum(tensor.nbytes for tensor in [*model.parameters(), *state, x])
    counted = existing + profiled(step)[0]
    assert wrapped.memory.planned_peak == pytest.approx(counted, rel=0.01)


@pytest.mark.parametrize("make", [Classifier, EveryFourth])
def test_the_plan_counts_results_and_their_gradients(make):
    x = torch.randn(ROWS, WIDTH)
    wrapped = lowtide.wrap(built(make), x, optimizer="none", time_limit=0.3)
    for _ in range(2):
        result = wrapped(x)
        result.backward(torch.ones(result.shape))
        del result
        wrapped.zero_grad()
    memory = wrapped.memory
    assert memory.planned_peak * 0.99 <= memory.measured_peak <= memory.planned_peak


@pytest.mark.parametrize("budget", ["5%", "30%", 1000])
def test_the_smallest_budget_that_an_error_names_does(budget):
    x = torch.randn(ROWS, WIDTH)
    with pytest.raises(lowtide.InfeasibleError) as refused:
        lowtide.wrap(built(Classifier), x, budget=budget, time_limit=1)
    enough = refused.value.smallest_budget
    assert f"({enough} bytes)" in str(refused.value)
    wrapped = lowtide.wrap(built(Classifier), x, budget=enough, time_limit=1)
    assert wrapped.memory.planned_peak <= enough
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.wrap(built(Classifier), x, budget=enough * 98 // 100, time_limit=1)


def test_every_refused_budget_names_the_same_smallest_one_with_no_store_of_plans():
    x = torch.randn(ROWS, WIDTH)

    def wrap(budget):
        return lowtide.wrap(built(Classifier), x, budget=budget, time_limit=1, cache=False)

    def smallest(budget):
        with pytest.raises(lowtide.InfeasibleError) as refused:
            wrap(budget)
        return refused.value.smallest_budget

    enough = smallest("5%")
    assert [smallest(budget) for budget in (1000, "30%", enough * 98 // 100)] == 3 * [enough]
    assert wrap(enough).memory.planned_peak <= enough


def test_a_step_that_fits_no_plan_does_not_end_a_training():
    x = torch.randn(16, WIDTH)
    budget = lowtide.wrap(built(WithLoss), x, optimizer="none").memory.planned_peak + (64 << 10)
    wrapped = lowtide.wrap(built(WithLoss), x, budget=budget, optimizer="none", time_limit=1)
    plain = built(WithLoss)
    for rows in (16, 400):
        found = []
        for model in (wrapped, plain):
            torch.manual_seed(3)
            x = torch.randn(rows, WIDTH)
            model.zero_grad()
            with _warns_of_budget(model is wrapped and rows == 400):
                loss_of(model(x), x).backward()
            found.append([p.grad.clone() for p in model.parameters()])
        assert all(map(torch.equal, *found))


def test_figures_stay_until_the_next_step_has_some():
    x = torch.randn(ROWS, WIDTH)
    wrapped = lowtide.wrap(built(Classifier), x)

    def step():
        result = wrapped(x)
        loss_of(result, x).backward()
        wrapped.zero_grad()

    step(), step()
    measured = wrapped.memory.measured_peak
    with torch.no_grad():
        wrapped(x)
    assert wrapped.memory.measured_peak == measured > 0
    waiting = wrapped(x)
    assert wrapped.memory.measured_peak == measured
    del waiting


def test_figures_can_be_read_where_a_step_fits_no_plan():
    x = torch.randn(ROWS, WIDTH)
    least = lowtide.wrap(built(Classifier), x, budget="100%", optimizer="none", time_limit=1)
    budget = least.memory.planned_peak
    wrapped = lowtide.wrap(built(Classifier), x, budget=budget, optimizer="none", time_limit=1)
    first = wrapped(x)
    with pytest.raises(lowtide.InfeasibleError, match="as far as the first step is known"):
        for _ in range(8):
            first = first + wrapped(x)
    assert wrapped.memory.planned_peak > 0 and lowtide.explain(wrapped)


def _warns_of_budget(expected):
    return (pytest.warns(UserWarning, match="no plan within its part of the budget") if expected
            else contextlib.nullcontext())


@pytest.mark.parametrize("chosen", ["error", "warn"])
def test_the_user_says_whether_a_step_that_fits_no_plan_runs(chosen):
    wrapped = lowtide.wrap(built(WithLoss), budget=1 << 19, time_limit=1, when_infeasible=chosen)
    x = torch.randn(ROWS, WIDTH)
    with (_warns_of_budget(True) if chosen == "warn" else pytest.raises(lowtide.InfeasibleError)):
        wrapped(x)[0].backward()


def test_gradients_that_are_kept_do_not_count_where_they_lay_before():
    """In the step that made them they were a part of the block."""
    model = built(WithLoss)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    rows = 8 * ROWS

    def wrapped_within(budget):
        return lowtide.wrap(model, torch.randn(rows, WIDTH), budget, optimizer=optimizer,
                            time_limit=0.3, verbose=False)

    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped_within(1)
    wrapped = wrapped_within(int(1.01 * error.value.smallest_budget))

    def run(part):
        wrapped(torch.randn(int(part * rows), WIDTH))[0].backward()
        memory = wrapped.memory
        assert memory.planned_peak <= memory.budget
        assert memory.measured_peak - memory.outside <= memory.budget

    run(1)
    optimizer.zero_grad()
    run(0.5)
    run(0.5)


def test_a_step_with_no_room_beside_what_is_held_is_no_reason_for_a_larger_budget():
    model = built(Classifier)
    x = torch.randn(ROWS, WIDTH)
    budget = lowtide.wrap(model, x, budget="100%", optimizer="none", time_limit=1).budget
    wrapped = lowtide.wrap(model, x, budget=budget, optimizer="none", time_limit=1)
    held = []

    def step():
        gradients = torch.autograd.grad(wrapped(x).sum(), list(wrapped.parameters()))
        held[:] = gradients

    with pytest.warns(UserWarning, match="within what is free of the budget.* this step exceeds"):
        for _ in range(3):
            step()


def test_state_that_is_made_while_a_pass_waits_is_measured_once():
    """A result that is held over the optimizer's step keeps its pass, so that the step goes on."""
    model = built(WithLoss)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(ROWS, WIDTH)
    wrapped = lowtide.wrap(model, x, budget="85%", optimizer=optimizer, time_limit=0.3)
    measured = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = wrapped(x)[0]
        waiting = wrapped(x)[0]
        waiting = wrapped(x)[0]  # noqa: F841  three passes at once, as in later steps
        loss.backward()
        optimizer.step()
        measured.append(wrapped.memory.measured_peak)
    state = sum(value.nbytes for state in optimizer.state.values() for value in state.values())
    assert state > 0 and max(measured) - measured[0] < state / 4


def test_state_that_takes_the_place_of_kept_gradients_is_measured_once():
    """The first step adds gradients up: they end where the state is made, of as many bytes."""
    model = built(WithLoss)
    optimizer = OPTIMIZERS["momentum"](model.parameters())
    x = torch.randn(ROWS, WIDTH)
    wrapped = lowtide.wrap(model, x, budget="85%", optimizer=optimizer, time_limit=0.3)
    measured = []
    for _ in range(2):
        for _ in range(2):
            wrapped(x)[0].backward()
            measured.append(wrapped.memory.measured_peak)
        optimizer.step()
        optimizer.zero_grad()
    state = sum(value["momentum_buffer"].nbytes for value in optimizer.state.values())
    assert measured[2] < measured[1] + state / 4


class NoGradients:
    """Of no parameter."""

    def tracks(self, leaf):
        return False

    def beside(self):
        return {}


def test_what_is_freed_while_a_graph_is_captured_is_none_of_its_step():
    device = str(torch.get_default_device())
    _runtime.reset_peaks(device)  # counts from now on
    others = [torch.ones(1_000_000)]
    meter = Meter([], lambda: 0, lambda: 0, NoGradients())
    meter.capture(device)
    traced = torch.ones(1000)
    del traced
    others.clear()
    with meter.own_pass():
        meter.begin(device)
        meter.read()
    assert 4000 <= meter.peak_bytes < 8000


class Executor:
    """Holds one block from its forward pass until its backward pass is over."""

    away_bytes, block_bytes = 0, 400_000

    def __init__(self, generator_state_bytes=0):
        self.generator_state_bytes = generator_state_bytes
        self.block = torch.ones(100_000)

    @property
    def held_bytes(self):
        return 0 if self.block is None else self.block_bytes


def test_a_block_given_back_between_two_backward_passes_is_none_of_what_other_code_took():
    device = str(torch.get_default_device())
    region = types.SimpleNamespace(executors=[], beside_block_bytes=0, pending_passes=1)
    meter = Meter([region], lambda: 0, lambda: 0, NoGradients())
    _runtime.reset_peaks(device)
    meter.begin(device)
    region.executors += [Executor(), Executor()]
    for executor in region.executors:
        with meter.own_pass():
            meter.read()
            executor.block = None
    assert meter.unforeseen_bytes == 0


def test_states_of_the_generator_in_a_block_leave_no_room_to_other_code():
    """They are counted among what lies beside it, as other plans have none."""
    device = str(torch.get_default_device())
    states = 100_000
    region = types.SimpleNamespace(executors=[], beside_block_bytes=states, pending_passes=0)
    meter = Meter([region], lambda: 0, lambda: 0, NoGradients())
    _runtime.reset_peaks(device)
    meter.begin(device)
    region.executors.append(Executor(states))
    others = torch.ones(15_000)
    with meter.own_pass():
        meter.read()
    assert meter.unforeseen_bytes == others.nbytes
