"""A call that raises, as for wrong inputs, takes nothing away from the calls after it."""

import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import seeded
from torch import nn
from torch_memory import profiled
from wrap_cases import same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Careful(nn.Module):
    """Refuses large batches before it computes, and what it does not know in between."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, x, kind="known", scale=1.0):
        if x.shape[0] > 64:
            raise ValueError(f"too many rows: {x.shape[0]}")
        hidden = self.first(x).tanh().exp().tanh()
        if kind != "known":
            raise NotImplementedError(kind)
        return self.second(hidden).mul(scale)


def careful():
    torch.manual_seed(0)
    return Careful()


def step_of(model):
    x = torch.randn(64, 16, generator=seeded(1))

    def step():
        model.zero_grad()
        model(x).sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters()]
    return step


WRONG_CALLS = {
    "the model's own check": lambda model: model(torch.randn(65, 16)),
    "a check after the first ops": lambda model: model(torch.randn(64, 16), kind="unknown"),
    "a text for a tensor": lambda model: model("rows"),
    "a text for a number": lambda model: model(torch.randn(64, 16), scale="2"),
    "a missing argument": lambda model: model(),
    "a wrong size": lambda model: model(torch.randn(64, 15)),
}


@pytest.mark.parametrize("wrong", WRONG_CALLS.values(), ids=WRONG_CALLS)
@pytest.mark.parametrize("planned_before", [True, False])
def test_calls_after_one_that_raised_run_by_their_plan(wrong, planned_before):
    model = lowtide.wrap(careful(), torch.randn(64, 16) if planned_before else None,
                         time_limit=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for _ in range(7):
            with pytest.raises((ValueError, TypeError, AttributeError, RuntimeError)):
                wrong(model)
        assert same(step_of(model)(), step_of(careful())())
    assert graphs_of_a_step(model) == 1


def graphs_of_a_step(model):
    runs = session_of(model).runs
    step_of(model)()
    return session_of(model).runs - runs


def test_another_model_of_the_class_is_planned_after_a_call_that_raised():
    model = lowtide.wrap(careful(), torch.randn(64, 16), time_limit=0.3)
    with pytest.raises(ValueError):
        model(torch.randn(65, 16))
    other = lowtide.wrap(careful(), torch.randn(64, 16), time_limit=0.3)
    assert graphs_of_a_step(other) == 1


def test_the_budget_holds_after_a_call_that_raised():
    """A call that raised ran as it is, and may have taken more meanwhile."""
    model = lowtide.wrap(careful(), torch.randn(64, 16), budget="90%", time_limit=0.3)
    step = step_of(model)
    step(), step()
    planned = model.memory.planned_peak
    with pytest.raises(NotImplementedError):
        model(torch.randn(64, 16), kind="unknown")
    step()
    for _ in range(3):
        peak, _, _ = profiled(step)
        step()
        assert max(peak, model.memory.measured_peak) <= model.memory.budget
        # Nothing is left for that call but between steps, for which another plan may be made.
        assert model.memory.planned_peak >= planned


class NeverTraced(nn.Module):
    """Nothing of it can be traced."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        for _ in range(2):
            torch._dynamo.graph_break()
            x = self.linear(x)
        return x


def test_what_cannot_be_traced_is_given_up():
    model = lowtide.wrap(NeverTraced(), time_limit=0.3)
    step = step_of(model)
    with pytest.warns(UserWarning, match="captured nothing"):
        step()
    step()
    traces = torch._dynamo.utils.counters["frames"]["total"]
    step()
    assert torch._dynamo.utils.counters["frames"]["total"] == traces
