"""Wrapped modules within what PyTorch has around a call: transforms, compiled autograd."""

import copy
import functools
import logging
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from torch import nn
from wrap_cases import CASES, ROWS, Deep, built, loss_of, same, smallest, train

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

LOGGER = logging.getLogger("talking")


def step(model, rows):
    loss = loss_of(model(rows))
    loss.backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    return [loss.detach(), *gradients]


def test_a_transform_runs_eagerly_and_later_calls_are_planned():
    make = lambda: nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 20))  # noqa: E731
    wrapped, plain = lowtide.wrap(built(make), *ROWS()), built(make)
    rows, = ROWS()
    with pytest.warns(UserWarning, match="without a plan: it was called within a transform"):
        got = torch.func.grad(lambda x: loss_of(wrapped(x)))(rows)
    assert torch.equal(got, torch.func.grad(lambda x: loss_of(plain(x)))(rows))
    runs = session_of(wrapped).runs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(step(wrapped, rows), step(plain, rows))
    assert session_of(wrapped).runs == runs + 1


def test_gradients_of_a_functional_call_are_taken_after_the_first_step():
    """The parameters are those of the transform meanwhile, which have no storage of their own."""
    make = lambda: nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 20))  # noqa: E731
    wrapped, plain = lowtide.wrap(built(make), *ROWS(), time_limit=0.3), built(make)
    rows, = ROWS()

    def gradients(model):
        def call(given, x):
            return loss_of(torch.func.functional_call(model, given, (x,)))

        step(model, rows)
        given = {name: p.detach() for name, p in model.named_parameters()}
        each = torch.func.vmap(torch.func.grad(call), in_dims=(None, 0))(given, rows)
        return [*torch.func.grad(call)(given, rows).values(), *each.values(), *step(model, rows)]

    with pytest.warns(UserWarning, match="without a plan: it was called within a transform"):
        got = gradients(wrapped)
    assert same(got, gradients(plain))


def test_every_call_without_a_plan_warns():
    class Sometimes(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList(nn.Linear(20, 20) for _ in range(2))

        def forward(self, x, broken):
            for part in self.parts:
                x = part(x)
                if broken:
                    torch._dynamo.graph_break()
            return x

    wrapped = lowtide.wrap(built(Sometimes), time_limit=0.3)
    wrapped(*ROWS(), False).sum().backward()
    with pytest.warns(UserWarning, match="Sometimes ran without a plan"):
        wrapped(*ROWS(), True)


def test_a_forward_of_another_tool_that_goes_past_the_plan_is_said():
    model = built(Deep)
    wrapped, x = lowtide.wrap(model, torch.randn(8, 32), time_limit=0.1), torch.randn(8, 32)
    planned = wrapped.forward

    @functools.wraps(type(model).forward)
    def past_the_plan(x):
        return model.layers(x)

    wrapped.forward = past_the_plan
    with pytest.warns(UserWarning, match=f"{__name__} exchanged its forward") as warned:
        for _ in range(2):
            wrapped(x).sum().backward()
    assert len(warned) == 1
    assert warned[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        with torch.no_grad():
            wrapped(x)
        wrapped.forward = lambda x: planned(x)
        wrapped(x).sum().backward()
        del wrapped.forward
        wrapped(x).sum().backward()
    assert type(wrapped).__call__ is torch.nn.Module.__call__


def test_what_is_logged_breaks_no_graph():
    class Talking(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(20, 20), nn.Linear(20, 20)

        def forward(self, x):
            x = self.first(x).tanh()
            LOGGER.warning("the first layer is done")
            return self.second(x)

    wrapped = lowtide.wrap(built(Talking), time_limit=0.3)
    rows, = ROWS()
    assert same(step(wrapped, rows), step(built(Talking), rows))
    assert len(session_of(wrapped).regions) == 1


@pytest.mark.parametrize("case", ["convolutions", "rrelu", "input changed"])
def test_compiled_autograd_calls_the_planned_backward_pass(case):
    make, inputs_of = CASES[case]
    wrapped = smallest(built(make), built(inputs_of, seed=9))
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        got = train(wrapped, inputs_of)
    assert same(got, train(built(make), inputs_of))
    assert wrapped.memory.planned_peak <= wrapped.memory.budget


def test_a_part_with_batch_norm_is_called_on_its_own_after_the_whole():
    """Before the whole it is an error, as the page of that message says: the part's own node finds
    running statistics of another version."""
    x = torch.randn(16, 8)

    def gradients(model):
        whole = model(x).sum()
        (whole + model[:-1](x).square().mean()).backward()
        return [p.grad for p in model.parameters()]

    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
    model = lowtide.wrap(copy.deepcopy(plain), x, time_limit=0.3)
    assert same(gradients(model), gradients(plain))
    assert same(list(model.buffers()), list(plain.buffers()))
    part = model[:-1](x).square().mean()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (part + model(x).sum()).backward()
