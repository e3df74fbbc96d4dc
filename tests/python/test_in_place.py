"""A budget for a module in place: its calls are planned, copies of it are plain."""

import copy
import inspect

import lowtide
import pytest
import torch
from lowtide.pytorch.integrations.in_place import enable_memory_budget
from on_device import seeded


class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = [torch.nn.Linear(32, 32) for _ in range(6)]
        self.layers = torch.nn.Sequential(*(part for layer in layers
                                            for part in (layer, torch.nn.GELU())))

    def forward(self, x):
        """The sum of squares."""
        return self.layers(x).square().sum()


@pytest.fixture
def module():
    torch.manual_seed(0)
    return Chain()


@pytest.fixture
def batch():
    return torch.randn(256, 32, generator=seeded(1))


def gradients(module, batch):
    module.zero_grad(set_to_none=True)
    module(batch).backward()
    return [parameter.grad.clone() for parameter in module.parameters()]


def test_calls_run_within_the_budget(module, batch):
    expected = gradients(module, batch)
    with enable_memory_budget(module, "70%", batch, optimizer="none", time_limit=0.3) as budget:
        found = gradients(module, batch)
        assert 0 < budget.memory.measured_peak <= budget.memory.budget
    assert all(map(torch.equal, found, expected))
    assert type(module) is Chain and "forward" not in module.__dict__


def test_without_inputs_the_first_call_plans(module, batch):
    budget = enable_memory_budget(module, "70%", time_limit=0.3)
    assert budget.memory.measured_peak == 0
    gradients(module, batch)
    assert budget.memory.measured_peak > 0


def test_a_copy_is_plain(module, batch):
    budget = enable_memory_budget(module, None)
    twin = copy.deepcopy(module)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert twin(batch) == 0
    assert module(batch) > 0
    budget.disable()


def test_an_earlier_exchange_stays(module, batch):
    plain = module.forward
    module.forward = lambda x: 2 * plain(x)
    doubled = module(batch)
    budget = enable_memory_budget(module, None)
    assert torch.equal(module(batch), doubled)
    budget.disable()
    budget.disable()
    assert torch.equal(module(batch), doubled)


def test_the_signature_stays(module):
    with enable_memory_budget(module, None):
        assert list(inspect.signature(module.forward).parameters) == ["x"]


def test_a_second_budget_is_refused(module):
    with enable_memory_budget(module, None), pytest.raises(lowtide.InputError, match="disable"):
        enable_memory_budget(module, None)


def test_a_budget_too_small_leaves_the_module_plain(module, batch):
    with pytest.raises(lowtide.InfeasibleError):
        enable_memory_budget(module, 100_000, batch, optimizer="none", time_limit=0.3)
    assert "forward" not in module.__dict__
