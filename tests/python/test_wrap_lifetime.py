"""A model that is dropped takes its plans, compiled code and memory with it."""

import functools
import gc
import weakref

import lowtide
import pytest
import torch
from lowtide import _runtime
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn
from wrap_cases import IMAGES, ROWS, Convolutions, Twice, built, smallest

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def layers():
    return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(20, 20), nn.Tanh())])


def wrapped(make, inputs_of):
    return lowtide.wrap(built(make), inputs_of())


@functools.cache
def least_budget(make, inputs_of):
    return smallest(built(make), inputs_of()).memory.budget


def wrapped_within_a_budget(make, inputs_of):
    return lowtide.wrap(built(make), inputs_of(), budget=least_budget(make, inputs_of),
                        time_limit=0.3)


def compiled(make, inputs_of):
    return torch.compile(built(make), backend="lowtide", options={"budget": None})


def trained(model, inputs_of):
    for _ in range(2):
        model(*inputs_of()).pow(2).mean().backward()
        model.zero_grad()
    return model


class Breaking(nn.Module):
    """Its graph breaks in the middle of a function that is not the outermost one."""

    def __init__(self):
        super().__init__()
        self.first, self.inner = layers(), Doubling()

    def forward(self, x):
        return self.inner(self.first(x))


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(20, 20)

    def forward(self, x):
        x = self.linear(x)
        return 2 * x if x.sum().item() > 1e9 else x


def require_nothing_stays(door, make, inputs_of):
    trained(door(make, inputs_of), inputs_of)  # what the process keeps once
    gc.collect()
    before = _runtime.taken_bytes()
    for _ in range(2):
        trained(door(make, inputs_of), inputs_of)
        gc.collect()
        assert _runtime.taken_bytes() == before


DOORS = (wrapped, wrapped_within_a_budget, compiled)


@pytest.mark.parametrize("door, make, inputs_of", sweep(
    [(door, *model) for door in DOORS
     for model in [(layers, ROWS), (Twice, ROWS), (Convolutions, IMAGES)]],
    usual=[(wrapped, Twice, ROWS), (wrapped_within_a_budget, Convolutions, IMAGES),
           (compiled, layers, ROWS)]))
def test_a_dropped_model_holds_no_memory(door, make, inputs_of):
    require_nothing_stays(door, make, inputs_of)


@pytest.mark.filterwarnings("ignore:within this budget:UserWarning")
def test_a_dropped_model_whose_graph_breaks_holds_no_memory():
    require_nothing_stays(wrapped, Breaking, ROWS)


@pytest.mark.parametrize("are_kept", [False, True])
def test_models_whose_graph_breaks_are_planned_however_many_there_were(are_kept, monkeypatch):
    monkeypatch.setattr("lowtide.pytorch.dynamo.trace.MOST_TRACES", 3)
    kept = []
    for _ in range(5):
        model = lowtide.wrap(built(Doubling), ROWS(), time_limit=0.3)
        for _ in range(4):
            with pytest.raises(RuntimeError):
                model(torch.randn(16, 21))
        trained(model, ROWS)
        assert session_of(model).why_unplanned == ""
        assert model.memory.measured_peak > 0
        kept += [model] * are_kept


def test_a_kept_loss_holds_no_block():
    held = []
    for make in (lambda: built(layers), lambda: lowtide.wrap(built(layers), ROWS())):
        model = make()
        gc.collect()  # what other tests and making it left
        before = _runtime.taken_bytes()
        loss = model(*ROWS()).pow(2).mean()
        loss.backward()
        model.zero_grad()
        del model
        gc.collect()
        held.append(_runtime.taken_bytes() - before)
        assert loss.grad_fn is not None
        del loss
    assert held[0] == held[1]


def test_another_model_of_the_same_class_stays_planned():
    kept = trained(wrapped(Breaking, ROWS), ROWS)
    trained(wrapped(Breaking, ROWS), ROWS)
    gc.collect()
    runs, regions = session_of(kept).runs, len(session_of(kept).regions)
    kept(*ROWS()).sum().backward()
    assert session_of(kept).runs == runs + 2 and len(session_of(kept).regions) == regions


def test_a_backward_pass_that_is_to_come_keeps_what_it_needs():
    model = built(layers)
    expected = built(layers)
    loss = lowtide.wrap(model, ROWS())(torch.ones(16, 20)).pow(2).mean()
    gc.collect()
    loss.backward()
    expected(torch.ones(16, 20)).pow(2).mean().backward()
    assert all(map(torch.equal, [p.grad for p in model.parameters()],
                   [p.grad for p in expected.parameters()]))


def test_the_session_goes_with_the_wrapped_module_while_the_model_stays():
    model = built(layers)
    sessions = []
    for _ in range(3):
        sessions.append(weakref.ref(session_of(trained(lowtide.wrap(model, ROWS()), ROWS))))
        model.zero_grad()
        gc.collect()
    assert all(session() is None for session in sessions)


def test_a_budget_that_cannot_be_met_keeps_nothing_of_the_model():
    for _ in range(3):
        model = built(layers)
        with pytest.raises(lowtide.InfeasibleError):
            lowtide.wrap(model, ROWS(), budget="30%", time_limit=0.3)
        weight = weakref.ref(model[0].weight)
        del model
        gc.collect()
        assert weight() is None
