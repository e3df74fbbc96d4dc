"""A budget that is a share, for models that Dynamo breaks into several graphs: of all of them."""

import warnings

import lowtide
import pytest
import torch
from torch import nn
from wrap_cases import Deep, InThreeGraphs, built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class SmallFirst(nn.Module):
    """A loss. What stands before the first break is a small part of the step."""

    def __init__(self, second=3, third=0):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.second, self.third = Deep(layers=second).layers, Deep(layers=third).layers

    def forward(self, x):
        x = self.first(x)
        torch._dynamo.graph_break()
        x = self.second(x)
        if len(self.third):
            torch._dynamo.graph_break()
            x = self.third(x)
        return x.square().mean()


MODELS = {"two graphs": SmallFirst, "three": lambda: SmallFirst(2, 3),
          "the same layers": lambda: InThreeGraphs(lambda: Deep(layers=2).layers)}


def trained(model, budget=None, rows=(512,) * 4, **options):
    torch.manual_seed(3)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(rows[0], 32)
    run = model if budget is None else lowtide.wrap(model, x, budget, optimizer=optimizer,
                                                    time_limit=0.3, **options)
    for count in rows:
        optimizer.zero_grad()
        run(torch.randn(count, 32)).backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()], run


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("budget", ["75%", "90%"])
def test_a_share_is_one_of_the_whole_step(case, budget):
    wanted, _ = trained(built(MODELS[case]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        got, wrapped = trained(built(MODELS[case]), budget, when_infeasible="error")
    assert all(map(torch.equal, got, wanted))
    assert wrapped.memory.measured_peak <= wrapped.memory.budget


@pytest.mark.parametrize("case", MODELS)
def test_a_share_is_one_of_the_whole_step_of_a_size_that_comes_later(case):
    """When its first graph is planned, the others are not known yet."""
    rows = (128, 128, 512, 512, 512)
    wanted, _ = trained(built(MODELS[case]), rows=rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        got, wrapped = trained(built(MODELS[case]), "80%", rows, when_infeasible="error")
    assert all(map(torch.equal, got, wanted))
    assert wrapped.memory.measured_peak <= wrapped.memory.budget


def test_a_share_that_is_too_small_is_said_after_the_first_step():
    with pytest.raises(lowtide.InfeasibleError, match="smallest budget that does"):
        trained(built(SmallFirst), "5%", when_infeasible="error")


@pytest.mark.parametrize("make, budget", [(SmallFirst, "40KiB"), (Deep, "5%")])
def test_bytes_and_shares_of_one_graph_are_refused_at_once(make, budget):
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.wrap(built(make), torch.randn(512, 32), budget, optimizer="adam", time_limit=0.3)
