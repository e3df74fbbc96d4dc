"""Budgets beside the memory of this machine."""

import lowtide
import pytest
import torch
from lowtide import _runtime


def step():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    return model, torch.ones(4096, 64)


def test_memory_is_that_of_the_machine():
    free, total = _runtime.device_memory()
    assert 0 < free
    assert 0 < total <= 2**50


def test_a_budget_beyond_the_machine_is_an_upper_limit():
    model, x = step()
    planned = lowtide.wrap(model, x, budget="64TiB")
    planned(x).sum().backward()
    assert planned.memory.planned_peak < 2**30


def test_a_plan_beyond_what_is_free_is_refused_before_the_first_op(monkeypatch):
    model, x = step()
    monkeypatch.setattr(_runtime, "device_memory", lambda device="cpu": (2**20, 2**34))
    with pytest.raises(lowtide.InfeasibleError) as error:
        lowtide.wrap(model, x, budget="8GiB")
    for part in ("8GiB", torch.get_default_device().type, "1.00 MiB", "16.0 GiB", "outside"):
        assert part in str(error.value)
    assert all(parameter.grad is None for parameter in model.parameters())
    monkeypatch.undo()
    lowtide.wrap(model, x, budget="8GiB")(x).sum().backward()
