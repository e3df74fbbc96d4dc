"""What an optimizer takes in its step is beside the gradients alone."""

import itertools
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.budget import optimizer_step
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from torch_memory import profiled
from wrap_cases import built, same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

ROWS, WIDTH, WORDS = 2048, 48, 3000


class Language(nn.Module):
    """Most of its parameters in one table, whose temporaries are larger than any activation."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.body = nn.Sequential(*[layer for _ in range(12)
                                    for layer in (nn.Linear(WIDTH, WIDTH), nn.Tanh())])

    def forward(self, x):
        return self.body(self.table(x)).pow(2).mean()


class Dropping(nn.Module):
    """Many small parameters, normalization and dropout."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(WIDTH, 8 * WIDTH)
        self.body = nn.Sequential(*[layer for _ in range(4) for layer in (
            nn.Linear(8 * WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU(), nn.Dropout(0.2),
            nn.Linear(WIDTH, 8 * WIDTH))])

    def forward(self, x):
        return F.cross_entropy(self.body(self.first(x)), x.argmax(1))


MODELS = {"language": (Language, lambda: torch.randint(0, WORDS, (ROWS,))),
          "dropping": (Dropping, lambda: torch.randn(ROWS, WIDTH))}
OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "adam of all at once": lambda p: torch.optim.Adam(p, foreach=True, amsgrad=True),
    "sgd with decay": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "rmsprop": torch.optim.RMSprop,
}


def step_bytes(optimizer, parameters):
    return optimizer_step.step_bytes(optimizer, parameters, str(torch.get_default_device()))


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x).backward()
    left = [p.grad.clone() for p in model.parameters()]
    del x
    optimizer.step()
    return left


def held_bytes(tensors):
    return sum({t.untyped_storage()._cdata: t.untyped_storage().nbytes()
                for t in tensors}.values())


def peak_of_step(model, optimizer, x):
    """All bytes that PyTorch's allocator has handed out, at the peak of a step, which takes its
    block anew: it may run by another plan than the one before."""
    def run():
        model(x).backward()
        optimizer.step()

    session_of(model).release()
    state = [value for state in optimizer.state.values() for value in state.values()]
    existing = held_bytes([*model.parameters(), *state, x])
    return existing + profiled(run)[0]


@pytest.mark.parametrize("case, percent, optimizer", sweep(
    itertools.product(MODELS, [60, 75], OPTIMIZERS),
    usual=[("language", 60, "adamw"), ("language", 75, "sgd with decay"),
           ("dropping", 60, "adam of all at once"), ("dropping", 75, "rmsprop")]))
def test_a_whole_step_is_within_the_budget(case, optimizer, percent):
    make, inputs_of = MODELS[case]
    model, plain = built(make), built(make)
    torch.manual_seed(1)
    optimizers = [OPTIMIZERS[optimizer](m.parameters()) for m in (model, plain)]
    wrapped = lowtide.wrap(model, inputs_of(), budget=f"{percent}%", optimizer=optimizers[0],
                           time_limit=0.6)
    for _ in range(3):
        x = inputs_of()
        torch.manual_seed(5)
        got = step(wrapped, optimizers[0], x)
        torch.manual_seed(5)
        assert same(got, step(plain, optimizers[1], x))
    optimizers[0].zero_grad()
    assert peak_of_step(wrapped, optimizers[0], x) <= wrapped.memory.budget


class Hoarding(torch.optim.SGD):
    """Holds more than Adam, and cannot be tried: nothing else knows what it wants."""

    def __init__(self, parameters, wanted):
        super().__init__(parameters, 0.1)

    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            for name in "abcd":
                self.state[parameter].setdefault(name, torch.zeros_like(parameter))
        return super().step(closure)


@pytest.mark.parametrize("case", ["frozen at first", "not foreseen"])
def test_state_that_is_made_later_counts(case):
    model, x = built(Dropping), torch.randn(ROWS, WIDTH)
    frozen = list(model.body.parameters()) if case == "frozen at first" else []
    for parameter in frozen:
        parameter.requires_grad_(False)
    optimizer = (torch.optim.Adam(model.parameters(), foreach=False) if frozen
                 else Hoarding(model.parameters(), "more"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wrapped = lowtide.wrap(model, x, budget="12MiB", optimizer=optimizer, time_limit=0.3)
        for steps in (2, 4):
            for _ in range(steps):
                wrapped(x).backward()
                optimizer.step()
                optimizer.zero_grad()
            for parameter in frozen:
                parameter.requires_grad_(True)
    state = [value for state in optimizer.state.values() for value in state.values()]
    assert session_of(wrapped).state_bytes == pytest.approx(held_bytes(state), rel=0.01)
    assert wrapped.memory.existing >= held_bytes([*model.parameters(), *state, x])
    assert wrapped.memory.measured_peak <= wrapped.memory.budget


def test_blocks_stay_where_nothing_is_made_after_the_passes():
    """SGD takes nothing in its step, and the next batch is there before."""
    model = built(Dropping)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    wrapped = lowtide.wrap(model, torch.randn(ROWS, WIDTH), budget="60%", optimizer=optimizer,
                           time_limit=0.3, stash=None, batches_ahead=1)
    wrapped(torch.randn(ROWS, WIDTH)).backward()
    [executor] = session_of(wrapped).regions[0].executors
    assert executor.held_bytes == executor.block_bytes


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_foresees_what_a_step_takes(optimizer):
    parameters = [nn.Parameter(torch.ones(size)) for size in (3000, 70000, 70000, 500)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    real = OPTIMIZERS[optimizer](parameters)
    foreseen = step_bytes(real, parameters)
    real.step()
    taken, left, _ = profiled(real.step)
    assert left == 0
    assert taken <= foreseen + 4096 and foreseen <= 1.05 * taken


@pytest.mark.parametrize("shape", [(4, 300, 200), (2, 2, 2, 90_000), (1_000_000,), (3, 400_000)])
def test_temporaries_of_any_shape_are_foreseen(shape):
    """As of expert layers, whose first dimension is small."""
    parameters = [nn.Parameter(torch.ones(shape)), nn.Parameter(torch.ones(7))]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    real = torch.optim.AdamW(parameters)
    foreseen = step_bytes(real, parameters)
    real.step()
    taken, _, _ = profiled(real.step)
    assert taken <= 1.02 * foreseen and foreseen <= 1.1 * taken


def test_optimizers_by_name_or_of_other_classes_are_foreseen():
    class Own(torch.optim.Optimizer):
        def __init__(self, parameters, important):
            super().__init__(parameters, {"important": important})

    parameters = [nn.Parameter(torch.ones(100))]
    adam = step_bytes(None, parameters)
    assert adam > 0
    assert step_bytes(torch.optim.Adam, parameters) == step_bytes("adam", parameters) == adam
    assert step_bytes(Own(parameters, 1), parameters) == adam
    assert step_bytes("none", parameters) == step_bytes("sgd", parameters) == 0
    assert step_bytes(torch.optim.AdamW, []) == 0


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_steps_that_run_the_model_are_within_the_budget_to_the_last(line_search):
    """LBFGS, whose history grows from step to step, and which holds it while the model runs."""
    model, plain = built(Dropping), built(Dropping)
    optimizers = [torch.optim.LBFGS(m.parameters(), lr=0.1, history_size=5, max_iter=4,
                                    line_search_fn=line_search) for m in (model, plain)]
    x = torch.randn(ROWS // 2, WIDTH)
    wrapped = lowtide.wrap(model, x, budget="75%", optimizer=optimizers[0], time_limit=0.6)

    def step_of(model, optimizer):
        def closure():
            optimizer.zero_grad()
            torch.manual_seed(5)
            loss = model(x)
            loss.backward()
            return loss.detach()
        return optimizer.step(closure)

    existing = held_bytes([*model.parameters(), x])
    for _ in range(3):
        state = held_bytes(tensor for values in optimizers[0].state.values()
                           for value in values.values()
                           for tensor in (value if isinstance(value, list) else [value])
                           if isinstance(tensor, torch.Tensor))
        gradients = held_bytes([p.grad for p in model.parameters() if p.grad is not None])
        blocks = sum(executor.held_bytes for region in session_of(wrapped).regions
                     for executor in region.executors)
        peak = profiled(lambda: step_of(wrapped, optimizers[0]))[0]
        assert existing + state + max(gradients, blocks) + peak <= wrapped.memory.budget
        step_of(plain, optimizers[1])
        assert same(list(model.parameters()), list(plain.parameters()))


class ManyDropouts(nn.Module):
    """Whose random ops run again in a small budget, each from a state of the generator."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[layer for _ in range(32) for layer in (
            nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.2))])

    def forward(self, x):
        return self.body(x).pow(2).mean()


@pytest.mark.cpu_only("states of a device's generator lie in memory of the host")
def test_states_of_the_generator_are_gone_when_the_optimizer_steps():
    model = built(ManyDropouts)
    parameters = list(model.parameters())
    optimizer = torch.optim.Adam(parameters, foreach=True)
    x = torch.randn(256, 64)
    # Parameters, gradients, the state and the batch: the step's temporaries lie beside those alone.
    held = 4 * held_bytes(parameters) + held_bytes([x])
    wrapped = lowtide.wrap(model, x, budget=held + step_bytes(optimizer, parameters) + 40_000,
                           optimizer=optimizer, time_limit=5)
    for _ in range(2):
        step(wrapped, optimizer, x)
    optimizer.zero_grad()
    [region] = session_of(wrapped).regions
    [executor] = region.executors
    plan = session_of(wrapped).plan_for(region)
    states = executor.block_bytes - (plan.arena_bytes - region.priced.resident_bytes)
    assert states > 20_000  # what lies in the block beside the plan's arena
    assert peak_of_step(wrapped, optimizer, x) <= wrapped.memory.budget
