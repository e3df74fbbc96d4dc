"""What is planned, whatever other tools do with a model before or after; and that it is said."""

import copy
import inspect
import random
import warnings

import lowtide
import numpy
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from torch import nn
from wrap_cases import same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 16))


def rows(count=24):
    return torch.randn(count, 16)


def step(model, x):
    model.zero_grad()
    torch.manual_seed(2)
    result = model(x)
    result.sum().backward()
    return [result.detach(), *(p.grad.clone() for p in model.parameters())]


def doubled(model):
    """Exchanges the forward of the object, as other tools do."""
    before = model.forward
    model.forward = lambda x: 2 * before(x)
    return model


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_forward_that_is_exchanged_on_the_object_is_planned(when):
    plain, model = layers(), layers()
    wrapped = (lowtide.wrap(doubled(model), rows(), time_limit=0.3) if when == "before"
               else doubled(lowtide.wrap(model, rows(), time_limit=0.3)))
    x = rows()
    assert same(step(wrapped, x), step(doubled(plain), x))
    assert wrapped.memory.measured_peak > 0


@pytest.fixture
def accelerate():
    """Accelerate without the precision that other tests of the process asked for."""
    module = pytest.importorskip("accelerate")
    module.state.AcceleratorState._reset_state(reset_partial_state=True)
    yield module
    module.state.AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.cpu_only("Accelerate knows no device of this name")
@pytest.mark.parametrize("when", ["before", "after"])
def test_accelerate_with_mixed_precision(accelerate, when):
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    plain = accelerator.prepare(nn.Sequential(*[layer for layer in layers()
                                                if not isinstance(layer, nn.Dropout)]))
    model = nn.Sequential(*[layer for layer in layers() if not isinstance(layer, nn.Dropout)])
    x = rows()
    if when == "before":
        wrapped = lowtide.wrap(accelerator.prepare(model), x, time_limit=0.3)
    else:
        wrapped = accelerator.prepare(lowtide.wrap(model, x, time_limit=0.3))
    assert same(step(wrapped, x), step(plain, x))
    assert wrapped.memory.measured_peak > 0


def test_a_plain_model_keeps_its_forward_when_that_of_the_wrapped_one_is_exchanged():
    model = layers()
    wrapped = lowtide.wrap(model, rows(), time_limit=0.3)
    doubled(wrapped)
    assert "forward" not in model.__dict__
    del wrapped.forward
    x = rows()
    assert same(step(wrapped, x), step(model, x))


def test_the_signature_of_forward_and_names_of_the_model_stay():
    class Bank(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.register_buffer("memory", torch.ones(16))

        def forward(self, x, scale: float = 1.0, *, shift=None):
            return scale * self.linear(x) + self.memory

    bank = Bank()
    wrapped = lowtide.wrap(bank, rows(), time_limit=0.3)
    assert wrapped.memory is bank.memory
    assert lowtide.memory(wrapped).planned_peak > 0
    assert inspect.signature(wrapped.forward) == inspect.signature(bank.forward)


def test_a_class_that_wants_arguments_of_its_subclasses():
    class Base(nn.Module):
        known = []

        def __init_subclass__(cls, *, name, **others):
            super().__init_subclass__(**others)
            cls.known.append(name)

    class Named(Base, name="named"):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x)

    wrapped = lowtide.wrap(Named(), rows(), time_limit=0.3)
    assert isinstance(wrapped, Named) and Base.known == ["named"]


def compiled_in_place(model):
    model.compile(backend="eager")
    return model


@pytest.mark.parametrize("make, why", [
    (lambda: torch.compile(layers()), "compiled by torch.compile"),
    (lambda: compiled_in_place(layers()), "compiled by torch.compile"),
    (lambda: torch.jit.trace(layers().eval(), rows()), "compiled by TorchScript")])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_modules_are_refused(make, why):
    with pytest.raises(lowtide.InputError, match=why):
        lowtide.wrap(make(), rows())


def test_nothing_planned_is_said_at_once():
    with torch.no_grad(), pytest.warns(UserWarning, match="under torch.no_grad"):
        wrapped = lowtide.wrap(layers(), rows(), budget=1 << 20)
    assert "Nothing is planned" in lowtide.explain(wrapped)
    assert lowtide.memory(wrapped).budget == 1 << 20
    with pytest.warns(UserWarning, match="in eval mode"):
        lowtide.wrap(layers().eval(), rows(), time_limit=0.3)


class Untraceable(nn.Module):
    """Counts, draws and prints; nothing of it can be captured."""

    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(16, 16), nn.Dropout(0.1)
        self.norm = nn.BatchNorm1d(16, momentum=None)
        self.calls, self.losses = 0, []

    def forward(self, x):
        self.calls += 1
        print("called")
        for _ in range(2):
            x = self.drop(self.norm(self.linear(x))) * random.random() * float(numpy.random.rand())
            self.losses.append(x.sum().item())
        return x


class BrokenInTwo(Untraceable):
    def forward(self, x):
        self.calls += 1
        print("called")
        self.losses.append(random.random())
        x = self.linear(x)
        torch._dynamo.graph_break()
        return self.drop(x)


@pytest.mark.parametrize("make", [Untraceable, BrokenInTwo])
@pytest.mark.filterwarnings("ignore:nothing of")
def test_wrap_leaves_everything_as_it_was(make, capsys):
    model = make()
    before, x = copy.deepcopy(model.state_dict()), rows()
    drawn = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].copy()
    lowtide.wrap(model, x, time_limit=0.3)
    assert torch.equal(torch.get_rng_state(), drawn[0]) and random.getstate() == drawn[1]
    assert (numpy.random.get_state()[1] == drawn[2]).all()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert model.calls == 0 and model.losses == []
    assert capsys.readouterr().out == ""


def test_warnings_name_the_reason_and_the_line_of_the_user_once_for_each_cause():
    wrapped = lowtide.wrap(Untraceable())
    with pytest.warns(UserWarning, match="captured nothing of it") as caught:
        wrapped(rows())
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped(rows())


def test_a_number_that_changes_in_each_step_does_not_end_the_training(monkeypatch):
    monkeypatch.setattr("lowtide.pytorch.dynamo.trace.MOST_TRACES", 4)
    plain, model = layers(), layers()
    wrapped = lowtide.wrap(model, rows(), time_limit=0.3)
    with pytest.warns(UserWarning, match="without a plan: it was traced"):
        for number in range(7):
            x = rows()
            plain[2].p = model[2].p = 0.1 + number / 100
            assert same(step(wrapped, x), step(plain, x))
    assert len(session_of(wrapped).regions) == 4


def test_the_guard_that_has_a_model_traced_again_and_again_is_named():
    wrapped = lowtide.wrap(layers(), rows(), time_limit=0.3)
    with pytest.warns(UserWarning, match=r"traced 6 times.*changed: .*\bp\b.*== 0\.") as caught:
        for number in range(7):
            wrapped[2].p = 0.1 + number / 100
            step(wrapped, rows())
    assert [warning.filename for warning in caught] == [__file__]


def test_inputs_of_any_layout():
    wrapped = lowtide.wrap(layers().eval(), rows(), time_limit=0.3)
    plain = layers().eval()
    for x in (rows(), torch.randn(16, 24).t(), torch.randn(1, 16).expand(24, 16),
              torch.randn(48, 32)[::2, ::2]):
        assert same(step(wrapped, x), step(plain, x))


@pytest.mark.parametrize("settings, why", [
    ({"time_limit": "5"}, "time_limit must be"), ({"time_limit": 0}, "time_limit must be"),
    ({"time_limit": float("nan")}, "time_limit must be"), ({"report": 3}, "report must be"),
    ({"options": {"moves": "many"}}, "must be a number"), ({"options": {"x": 1}}, "no option"),
    ({"budget": torch.tensor(8)}, "a budget is"), ({"budget": True}, "a budget is"),
    ({"budget": 0.6}, 'write "60%"'), ({"budget": "6G"}, "unknown unit"),
    ({"strategy": "best"}, "no strategy"), ({"when_infeasible": "stop"}, "when_infeasible"),
    ({"batches_ahead": -1}, "batches_ahead must be"), ({"cache": "new"}, "unknown cache"),
    ({"optimizer": "best"}, "unknown optimizer")])
def test_settings_are_refused_by_wrap(settings, why):
    with pytest.raises(lowtide.InputError, match=why):
        lowtide.wrap(layers(), **settings)


def test_what_wrap_planned_is_run():
    wrapped = lowtide.wrap(layers(), rows(), time_limit=0.3)
    step(wrapped, rows())
    assert len(session_of(wrapped).regions) == 1


class OfArrays(nn.Module):
    """Takes an array of NumPy, and a number."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, array, scale):
        return self.layers(torch.as_tensor(array) * scale)


@pytest.mark.cpu_only("arrays of NumPy lie on the host")
def test_inputs_may_be_arrays_of_numpy():
    plain, model = OfArrays(), OfArrays()
    model.load_state_dict(plain.state_dict())
    wrapped = lowtide.wrap(model, (rows().numpy(), 0.5), time_limit=0.3)
    for scale in (0.5, 2.0):
        x = rows().numpy()
        results = []
        for each in (plain, wrapped):
            torch.manual_seed(2)
            results.append(each(x, scale))
        assert same(*results)
    assert session_of(wrapped).has_plans


def test_a_slice_of_a_wrapped_sequence_computes_its_own_layers():
    plain = nn.Sequential(nn.Linear(20, 20), nn.Tanh(), nn.Linear(20, 20))
    x = torch.randn(16, 20)
    wrapped = lowtide.wrap(copy.deepcopy(plain), x, time_limit=0.3)
    assert torch.equal(wrapped[:2](x), plain[:2](x))
    assert torch.equal(wrapped(x), plain(x))
