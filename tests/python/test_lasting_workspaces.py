"""Workspaces that a GPU's libraries keep for good, of which a machine without one has none: what
PyTorch tells of them stands in."""

import lowtide
import pytest
import torch
from lowtide.pytorch.budget import account
from on_device import DEVICE
from torch import nn

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.skipif(DEVICE == "cuda", reason="has workspaces of its own")]

BYTES = 3 << 20


@pytest.fixture
def lasting(monkeypatch):
    monkeypatch.setattr(account, "lasting_bytes", lambda device: BYTES)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.Tanh())])


def wrapped(budget):
    return lowtide.wrap(layers(), torch.randn(256, 64), budget=budget, optimizer="none",
                        time_limit=0.3)


def test_they_exist_before_the_step_and_no_plan_saves_a_share_of_them(request):
    plain = wrapped("90%").memory
    request.getfixturevalue("lasting")
    memory = wrapped("90%").memory
    assert memory.existing == plain.existing + BYTES
    assert memory.budget == plain.budget + BYTES
    assert memory.planned_above == plain.planned_above


def test_a_budget_in_bytes_holds_them(lasting):
    least = wrapped("90%").memory.budget
    assert wrapped(least).memory.planned_peak <= least
    with pytest.raises(lowtide.InfeasibleError, match="3.00 MiB of workspaces that cuBLAS keeps"):
        wrapped(BYTES)
