"""Sizes that change from call to call: eager's bits, within the budget, no search to wait for."""

import lowtide
import pytest
import torch
from lowtide import _core
from lowtide.pytorch.plans import graph_plans
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch_memory import profiled

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(4) for layer in (
            nn.Linear(32, 32), nn.LayerNorm(32), nn.Dropout(0.2), nn.GELU())))

    def forward(self, x):
        return self.layers(x).square().mean()


def built():
    torch.manual_seed(0)
    return Network()


def trained(model, sizes):
    """The losses of a step for each size, and what they leave behind."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for size in sizes:
        loss = model(torch.randn(size, 32))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(p.detach() for p in model.parameters()), torch.get_rng_state()]


def wrapped_for(size, share=0.8, **settings):
    """Within a share of what a step of that size takes; budgets are in bytes, as sizes differ."""
    x = torch.randn(size, 32)
    whole = lowtide.wrap(built(), x, budget="100%", time_limit=0.3)
    return lowtide.wrap(built(), x, budget=int(share * whole.memory.budget), time_limit=1.5,
                        **settings)


@pytest.fixture
def no_search(monkeypatch):
    """From now on a plan that takes a search is an error."""
    def forbid():
        def searched(*_):
            raise AssertionError("a search was run")
        monkeypatch.setattr(graph_plans.GraphPlans, "_search_briefly", searched)
        monkeypatch.setattr(graph_plans.GraphPlans, "_find", searched)
        monkeypatch.setattr(graph_plans.GraphPlans, "_improve", lambda *_: None)
    return forbid


def test_smaller_sizes_need_no_search(no_search):
    wrapped = wrapped_for(512, optimizer="sgd")
    no_search()
    sizes = [512, 512, 300, 511, 1, 512, 7]
    assert all(map(torch.equal, trained(wrapped, sizes), trained(built(), sizes)))
    session = session_of(wrapped)
    regions = sorted(session.regions, key=lambda region: region.priced.resident_bytes)
    for region in regions[-2:]:  # for 511 and 512 the budget is too small to keep everything
        assert session.plan_for(region).cost > region.priced.keep_all_cost


def test_a_larger_size_runs_by_the_decisions_for_a_smaller_one(no_search):
    wrapped = wrapped_for(512, share=0.94, optimizer="sgd")
    no_search()
    sizes = [256, 520, 512]
    assert all(map(torch.equal, trained(wrapped, sizes), trained(built(), sizes)))


def test_every_size_is_within_the_budget():
    wrapped = wrapped_for(512)
    budget = wrapped.memory.budget
    before = sum(p.nbytes for p in wrapped.parameters())
    for size in (512, 300, 512, 64, 500):
        peak, _, _ = profiled(lambda: trained(wrapped, [size]) and None)
        assert peak <= budget - before


def test_a_size_that_does_not_fit_is_refused_and_the_others_go_on():
    wrapped = wrapped_for(256, when_infeasible="error")
    trained(wrapped, [256, 100])
    with pytest.raises(lowtide.InfeasibleError, match="smallest budget|down to"):
        wrapped(torch.randn(4096, 32))
    sizes = [256, 100, 77]
    plain = built()
    plain.load_state_dict(wrapped.state_dict())
    assert all(map(torch.equal, trained(wrapped, sizes), trained(plain, sizes)))


def test_decisions_are_not_transferred_to_other_ops():
    one = lowtide.wrap(built(), torch.randn(64, 32))
    other = lowtide.wrap(nn.Sequential(built(), nn.Tanh()), torch.randn(64, 32))
    (a,), (b,) = session_of(one).regions, session_of(other).regions
    plan = a.plans.within(None)
    assert _core.transfer(a.priced.graph, a.priced.graph, plan, 1 << 40).cost == plan.cost
    assert _core.transfer(b.priced.graph, a.priced.graph, plan, 1 << 40) is None
