"""Calls in Inductor's mode: which are of one kind, what a fit leaves behind, what the budget holds
beside the passes."""

import threading
import warnings

import lowtide
import pytest

torch = pytest.importorskip("torch")

from inductor_cases import Stack, without_code  # noqa: E402
from lowtide.pytorch.inductor import PlannedPartition  # noqa: E402
from lowtide.pytorch.inductor.split import joint  # noqa: E402
from lowtide.pytorch.wrap import session_of  # noqa: E402

pytestmark = [pytest.mark.usefixtures("one_thread", "without", "one_compiling_process"),
              pytest.mark.cpu_only("Inductor generates no code for this device")]
WIDTH = 32


@pytest.fixture
def without():
    """No code is generated."""
    with without_code():
        yield


def batch(rows=8):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))


class Layer(torch.nn.Module):
    """A product, and a sum with another input, times a number."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.fc, self.more = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x, other=None, scale=1.0):
        x = x if other is None else x + other
        return (self.more(self.fc(x).relu()) * scale).square().sum()


def wrapped(model=None, given=None, budget=None, **settings):
    return lowtide.wrap(model or Layer(), given, budget, mode="inductor", verbose=False, **settings)


def kinds(model):
    return len(session_of(model).calls)


# ---- What follows the passes

class Wide:
    """A model whose optimizer takes more for a while than its passes do."""

    def __init__(self):
        self.plain, self.given = Layer(256), torch.randn(1, 256)
        self.optimizer = torch.optim.AdamW(self.plain.parameters(), foreach=True)

    def wrapped(self, budget=None):
        return wrapped(self.plain, self.given, budget, optimizer=self.optimizer)

    def step(self, model):
        self.optimizer.zero_grad()
        model(self.given).backward()
        self.optimizer.step()


def test_the_budget_holds_what_the_optimizers_step_takes():
    wide = Wide()
    budget = wide.wrapped().memory.planned_peak
    model = wide.wrapped(budget)
    assert model.memory.measured_peak < budget == model.memory.planned_peak
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            wide.step(model)
    assert 0.9 * budget < model.memory.measured_peak <= budget


def test_a_budget_below_what_the_optimizers_step_takes_is_refused():
    wide = Wide()
    model = wide.wrapped()
    needed = model.memory.planned_peak
    with pytest.raises(lowtide.InfeasibleError, match="when its passes are over") as error:
        wide.wrapped(needed - 1000)
    assert error.value.smallest_budget == needed
    model.budget = needed
    with pytest.raises(lowtide.InfeasibleError, match="when its passes are over"):
        model.budget = needed // 2
    assert model.budget == needed


def test_a_step_above_its_budget_is_said():
    model = wrapped(given=batch(), optimizer="none")
    model.budget = 2 * model.memory.planned_peak
    model(batch()).backward()
    model.zero_grad()
    loss, beside = model(batch()), torch.empty(model.budget)
    loss.backward()
    del beside
    model.zero_grad()
    with pytest.warns(UserWarning, match="a step of Layer took .* more than its budget"):
        model(batch())
    assert model.memory.budget == model.budget


# ---- Of one kind, or of others

class Counted(Layer):
    """A buffer that is made anew in each call, and a number of the calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.steps = self.steps + 1
        self.calls += 1
        return super().forward(x)


def test_a_fit_in_the_first_call_leaves_the_model_as_it_was():
    model = wrapped(Counted())
    model(batch()).backward()
    assert (model.steps, model.calls) == (1, 1)


def test_other_parameters_that_are_trained_are_another_kind():
    model = wrapped(given=batch(), optimizer="adam")
    model(batch()).backward()
    model.zero_grad()
    before = model.memory.existing
    model.fc.requires_grad_(False)
    model(batch()).backward()
    state = 2 * sum(parameter.nbytes for parameter in model.fc.parameters()) + 2 * 4
    assert kinds(model) == 2 and model.memory.existing == before - state


def test_another_precision_of_the_caller_is_another_kind():
    model = wrapped(given=batch())
    with torch.autocast("cpu", torch.bfloat16):
        model(batch()).backward()
    model.zero_grad()
    model(batch()).backward()
    assert kinds(model) == 2


@pytest.mark.parametrize("other", [
    lambda x: x, lambda x: torch.ones(len(x), 1).expand_as(x), lambda x: torch.ones(8, 64)[:, ::2]],
    ids=["the same tensor", "expanded", "strided"])
def test_what_is_measured_is_what_runs(monkeypatch, other):
    """The copies of the inputs, too, are one tensor where these are, and have their strides."""
    split = []
    partition = PlannedPartition.__call__
    monkeypatch.setattr(PlannedPartition, "__call__",
                        lambda *given, **named: split.append(1) or partition(*given, **named))
    model, x = wrapped(), batch()
    model(x, other(x)).backward()
    assert len(split) == 1


def test_numbers_that_change_are_said_and_code_is_kept_of_some_kinds(monkeypatch):
    monkeypatch.setattr("lowtide.pytorch.inductor.mode._MOST_KINDS", 2)
    monkeypatch.setattr("lowtide.pytorch.dynamo.retrace_warning._MANY_TRACES", 3)
    model = wrapped()
    for scale in (1.0, 2.0):
        model(batch(), scale=scale)
    with pytest.warns(UserWarning, match=r"numbers alone, now scale = 3\.0"):
        loss = model(batch(), scale=3.0)
    assert kinds(model) == 2
    loss.backward()
    assert model.memory.measured_peak > model.memory.existing


def test_many_sizes_without_gradients_run_as_pytorch_runs_them(monkeypatch):
    monkeypatch.setattr("lowtide.pytorch.dynamo.trace.MOST_TRACES", 2)
    model = wrapped()
    with torch.no_grad():
        for rows in (2, 3):
            model(batch(rows))
        with pytest.warns(UserWarning, match="Layer ran without a plan: it was traced"):
            found = model(batch(4))
        assert torch.equal(found, Layer.forward(model, batch(4)))


def test_a_budget_that_another_thread_sets_waits_for_the_forward_pass(monkeypatch):
    model = wrapped(given=batch())
    meter = session_of(model)._meter
    begin = meter.begin
    other = threading.Thread(target=lowtide.set_budget, args=(model, "1GiB"))

    def begin_and_set(device):
        begin(device)
        other.start()
        other.join(0.1)

    monkeypatch.setattr(meter, "begin", begin_and_set)
    loss = model(batch())
    other.join()
    loss.backward()
    assert model.budget == 1 << 30 and model.fc.weight.grad is not None


def test_within_another_wrapped_module_it_is_a_part_of_its_plan():
    inner = wrapped(given=batch())
    outer = lowtide.wrap(torch.nn.Sequential(inner), batch(), verbose=False)
    before = inner.memory
    outer(batch()).backward()
    assert inner.memory == before
    assert outer.memory.measured_peak > outer.memory.existing > 0


# ---- Reports

def test_a_step_that_is_no_function_is_refused(tmp_path):
    with pytest.raises(lowtide.InputError, match="step must be a function"):
        lowtide.report(wrapped(), tmp_path / "page.html", step=3)


def test_kernels_of_pytorchs_own_split_are_grouped_once(monkeypatch, tmp_path):
    grouped = []
    group = joint.group_kernels
    monkeypatch.setattr(joint, "group_kernels", lambda *given: grouped.append(1) or group(*given))
    model = wrapped(Stack(), batch())
    for name in ("first.csv", "second.csv"):
        lowtide.report(model, tmp_path / name)
    assert len(grouped) == 1
