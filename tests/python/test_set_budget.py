"""A budget that changes while a model trains: eager's bits, and within it from then on."""

import random
import threading
import warnings

import lowtide
import pytest
import torch
from stash_cases import Rectified
from sweep import sweep
from torch import nn
from torch_memory import profiled
from wrap_cases import Attention, Counting, Deep, InThreeGraphs, built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def five_layers():
    return Deep(layers=5)


class Tokens(nn.Module):
    """A loss. No tied weights: uses in several accumulated calls are added in another order."""

    def __init__(self):
        super().__init__()
        self.inner = Attention()
        self.inner.head = nn.Linear(32, 50, bias=False)

    def forward(self, tokens):
        return self.inner(tokens).square().mean()


CASES = {"rows": (five_layers, lambda: torch.randn(256, 32)),
         "tokens": (Tokens, lambda: torch.randint(0, 50, (8, 24))),
         "three graphs": (lambda: InThreeGraphs(lambda: Deep(layers=2).layers),
                          lambda: torch.randn(256, 32)),
         "stashes": (Rectified, lambda: torch.randn(4, 3, 24, 24))}


class Counted:
    """Runs parts of a step; what PyTorch allocated from a start on must be within the budget."""

    def __init__(self, model, in_use):
        self._model, self._in_use = model, in_use

    def __call__(self, part_of_step, budget=None):
        """``budget``: in force meanwhile; that of the model at the start where None."""
        budget = budget or self._model.budget
        peak, left, _ = profiled(part_of_step)
        assert self._in_use + peak <= budget
        self._in_use += left

    def change(self, budget):
        self(lambda: setattr(self._model, "budget", budget), max(budget, self._model.budget))
        assert self._in_use <= budget


def drawn(seed):
    """For each step: how many forward passes wait together, where the budget changes, and to which
    part of the range between the least and all; and whether gradients are dropped."""
    draw = random.Random(seed)
    places = ("before", "between", "after", "never")
    return [(draw.choice((1, 1, 2)), draw.choice(places), draw.random(), draw.random() < 0.7)
            for _ in range(6)]


def train(model, inputs_of, seed, change=lambda part: None, run=lambda part: part()):
    """What steps leave behind. ``change(part)`` sets a budget, ``run`` runs a part of a step."""
    torch.manual_seed(seed)
    left = []
    for passes, place, part, drops in drawn(seed):
        losses = []

        def forward(passes=passes, losses=losses):
            losses.extend(model(inputs_of()) for _ in range(passes))

        if place == "before":
            change(part)
        run(forward)
        if place == "between":
            change(part)
        run(lambda losses=losses: sum(losses).backward())
        if place == "after":
            change(part)
        left += [loss.detach().clone() for loss in losses]
        left += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        losses.clear()
        if drops:
            run(model.zero_grad)
    return [*left, *(v.clone() for v in model.state_dict().values()), torch.get_rng_state()]


def require_same(got, expected):
    assert len(got) == len(expected)
    assert [i for i, pair in enumerate(zip(got, expected)) if not torch.equal(*pair)] == []


SEEDS = sweep(range(40), (0, 1, 2, 7, 13))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_budget_may_change_between_any_two_passes(case, seed):
    make, inputs_of = CASES[case]
    wrapped = lowtide.wrap(built(make), built(inputs_of), budget="100%", optimizer="none",
                           time_limit=0.3)
    train(wrapped, inputs_of, seed)  # all that a step can hold is known from here on
    wrapped.zero_grad()
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped.budget = 1
    # Searches take a part of a second here, and what other code takes differs from step to step: so
    # the smallest budget of a later step may be larger.
    least, most = int(1.25 * error.value.smallest_budget), 2 * wrapped.budget
    wrapped.budget = most
    wrapped.load_state_dict(built(make).state_dict())
    counted = Counted(wrapped, sum(v.nbytes for v in wrapped.state_dict().values()))
    got = train(wrapped, inputs_of, seed, run=counted,
                change=lambda part: counted.change(least + int(part * (most - least))))
    require_same(got, train(built(make), inputs_of, seed))


def test_another_thread_may_set_it_at_any_time():
    make, inputs_of = CASES["rows"]
    wrapped = lowtide.wrap(built(make), built(inputs_of), budget="100%", optimizer="none",
                           time_limit=0.3)
    most = 2 * wrapped.budget
    over = threading.Event()
    chosen = []

    def set_budgets():
        draw = random.Random(1)
        while not over.wait(0.005):
            chosen.append(int(draw.choice((0.8, 0.9, 1)) * most))
            wrapped.budget = chosen[-1]

    thread = threading.Thread(target=set_budgets)
    thread.start()
    try:
        got = train(wrapped, inputs_of, seed=7)
    finally:
        over.set()
        thread.join()
    require_same(got, train(built(make), inputs_of, seed=7))
    assert len(chosen) > 1
    wrapped(inputs_of())
    assert wrapped.budget == chosen[-1]


def test_another_thread_leaves_gradients_to_the_one_that_trains():
    """It may clip them at that time, or drop them."""
    make, inputs_of = CASES["rows"]
    wrapped = lowtide.wrap(built(make), inputs_of(), budget="100%", optimizer="none",
                           time_limit=3)
    wrapped(inputs_of()).backward()
    kept = [parameter.grad for parameter in wrapped.parameters()]
    with pytest.raises(lowtide.InfeasibleError) as error:
        wrapped.budget = 1
    budget = int(1.3 * error.value.smallest_budget)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        in_a_thread(lambda: setattr(wrapped, "budget", budget))
    assert all(p.grad is gradient for p, gradient in zip(wrapped.parameters(), kept))
    kept.clear()
    wrapped(inputs_of()).backward()
    wrapped(inputs_of()).backward()
    assert wrapped.memory.measured_peak <= budget == wrapped.budget


def in_a_thread(run):
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


class Watched(torch.optim.Adam):
    """Calls ``during`` in the middle of a step, when it has taken its state."""

    during = None

    def _init_group(self, *given):
        found = super()._init_group(*given)
        during, self.during = self.during, None
        if during is not None:
            in_a_thread(during)
        return found


@pytest.mark.cpu_only("budgets that count buffers for copies, as on the CPU")
def test_another_thread_may_set_it_while_the_optimizer_steps(tmp_path):
    def make():
        return nn.Sequential(*(layer for _ in range(4)
                               for layer in (nn.Linear(1024, 1024), nn.Tanh())))

    x, models = torch.randn(64, 1024), [built(make), built(make)]
    optimizers = [Watched(model.parameters()) for model in models]
    models[0] = lowtide.wrap(models[0], x, budget="200MiB", optimizer=optimizers[0],
                             offload=lowtide.Offload(tmp_path, bandwidth="1GB/s"), time_limit=0.3)
    wrapped, seen = models[0], []
    for budget in (200, 56, 200, 1, 56):
        before = wrapped.budget
        for model, optimizer in zip(models, optimizers):
            if model is wrapped:
                optimizer.during = lambda: setattr(wrapped, "budget", f"{budget}MiB")  # noqa: B023
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert wrapped.budget == before
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            wrapped(x)
        seen.append((wrapped.budget >> 20, wrapped.memory.state_bytes > 0,
                     any("set while a pass or the optimizer ran, and cannot be kept: infeasible"
                         in str(warning.message) for warning in said)))
    assert seen == [(200, False, False), (56, True, False), (200, False, False),
                    (200, False, True), (56, True, False)]
    require_same(list(wrapped.parameters()), list(models[1].parameters()))
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    for key, state in states[0].items():
        require_same([states[1][key][name] for name in state], list(state.values()))


def counting():
    return Counting(layers=5)


def test_a_pass_that_cannot_run_again_ends_within_the_old_budget_and_says_so():
    x, plain = CASES["rows"][1](), built(counting)
    wrapped = lowtide.wrap(built(counting), x, budget="100%", optimizer="none", time_limit=0.3)

    def step(model, change=lambda: None):
        torch.manual_seed(3)
        loss = model(x)
        change()
        loss.backward()

    def shrink():
        with pytest.warns(UserWarning, match="exceeded until this step is over.*cannot be run "
                                             "again.*overwrites"):
            wrapped.budget = "70%"

    step(wrapped, shrink), step(wrapped), step(wrapped)
    step(plain), step(plain), step(plain)
    assert wrapped.memory.measured_peak <= wrapped.budget
    require_same([p.grad for p in wrapped.parameters()], [p.grad for p in plain.parameters()])


class HasABudget(Deep):
    def __init__(self):
        super().__init__(layers=5)
        self.budget = "its own"


def test_a_model_with_a_budget_of_its_own_keeps_it():
    wrapped = lowtide.wrap(built(HasABudget), CASES["rows"][1](), budget="100%", time_limit=0.3)
    before = wrapped.memory.budget
    lowtide.set_budget(wrapped, "80%")
    assert wrapped.budget == "its own" and wrapped.memory.budget == int(0.8 * before)


def test_no_limit_and_a_share_of_all():
    make, inputs_of = CASES["rows"]
    wrapped = lowtide.wrap(built(make), inputs_of(), optimizer="none", time_limit=0.3)
    assert wrapped.budget is None
    wrapped.budget = "100%"
    whole = wrapped.budget
    wrapped.budget = "70%"
    assert wrapped.budget == int(0.7 * whole) and wrapped.memory.planned_peak <= wrapped.budget
    wrapped.budget = None
    assert wrapped.budget is None and wrapped.memory.budget is None


def test_what_cannot_be_changes_nothing():
    make, inputs_of = CASES["rows"]
    wrapped = lowtide.wrap(built(make), inputs_of(), budget="90%", optimizer="none",
                           time_limit=0.3)
    before = wrapped.budget
    with pytest.raises(lowtide.InfeasibleError, match="the smallest budget that does is"):
        wrapped.budget = "1KiB"
    with pytest.raises(lowtide.InputError, match="budget"):
        wrapped.budget = "much"
    assert wrapped.budget == before
    with pytest.raises(lowtide.InputError, match="not wrapped"):
        lowtide.set_budget(built(make), "1GiB")


def test_with_offload_there_must_be_one(tmp_path):
    make, inputs_of = CASES["rows"]
    wrapped = lowtide.wrap(built(make), inputs_of(), budget="1GiB", optimizer="none",
                           offload=tmp_path, time_limit=0.3)
    with pytest.raises(lowtide.InputError, match="offload needs a budget"):
        wrapped.budget = None


def test_the_optimizer_s_state_moves_away_and_comes_back(tmp_path):
    def make():
        return nn.Sequential(*(layer for _ in range(4)
                               for layer in (nn.Linear(1024, 1024), nn.Tanh())))

    plain, x = built(make), torch.randn(64, 1024)
    optimizers = [torch.optim.Adam(plain.parameters())]
    wrapped = built(make)
    optimizers.append(torch.optim.Adam(wrapped.parameters()))
    wrapped = lowtide.wrap(wrapped, x, budget="200MiB", optimizer=optimizers[1], offload=tmp_path,
                           time_limit=0.5)

    def steps():
        for model, optimizer in zip((plain, wrapped), optimizers):
            for _ in range(2):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()

    moved = []
    for budget in (200, 60, 64, 200, 56):
        wrapped.budget = f"{budget}MiB"
        steps()
        moved.append(wrapped.memory.state_bytes > 0)
        assert wrapped.memory.planned_peak <= wrapped.budget
    assert moved == [False, True, True, False, True]
    require_same(list(wrapped.parameters()), list(plain.parameters()))
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    for key, state in states[0].items():
        require_same([states[1][key][name] for name in state], list(state.values()))


@pytest.mark.parametrize("extra", [0, 20_000])
def test_a_pass_that_runs_again_ends_within_a_budget_that_was_accepted(extra):
    """Beside the results of the first one, which the caller holds."""
    def make():
        return nn.Sequential(*(layer for _ in range(8)
                               for layer in (nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1))))

    x = torch.randn(64, 32)
    plain = built(make)
    model = lowtide.wrap(built(make), x, "100%", optimizer="none", time_limit=0.3, verbose=False)
    with pytest.raises(lowtide.InfeasibleError) as refused:
        model.budget = 2000
    for one in (plain, model):
        torch.manual_seed(7)
        loss = one(x).square().mean()
        if one is model:
            one.budget = refused.value.smallest_budget + extra
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the budget of .* is exceeded by up to")
            loss.backward()
    require_same([parameter.grad for parameter in model.parameters()],
                 [parameter.grad for parameter in plain.parameters()])
