"""The device has no memory left at some request of a step: an error, and the training goes on."""

import lowtide
import pytest
import torch
from torch import nn

DEVICE = "simulated"

pytestmark = pytest.mark.usefixtures("own_cache")


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*(layer for _ in range(4)
                                      for layer in (nn.Linear(256, 256), nn.Tanh())))

    def forward(self, x):
        return self.layers(x)


def step(model, optimizer, x):
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def make(wrapped):
    torch.manual_seed(1)
    model = Model().to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters())
    if wrapped:
        x = torch.zeros(1024, 256, device=DEVICE)
        model = lowtide.wrap(model, x, "90%", optimizer=optimizer, time_limit=0.3, cache=False)
    return model, optimizer


def parameters(model):
    return [parameter.detach().cpu() for parameter in model.parameters()]


def test_a_step_that_gets_no_memory_changes_nothing_and_the_next_one_trains():
    planned, eager = make(True), make(False)
    x = torch.randn(1024, 256, device="cpu").to(DEVICE)
    failed = 0
    for free_mib in (0, 1, 2, 4, 6):
        before = parameters(planned[0])
        states = len(planned[1].state)
        hog = all_but(free_mib << 20)
        try:
            planned[0](x).square().mean().backward()
        except torch.OutOfMemoryError:
            failed += 1
        hog.clear()
        planned[1].zero_grad()
        assert all(map(torch.equal, parameters(planned[0]), before))
        assert len(planned[1].state) == states
        for trained in (planned, eager):
            step(*trained, x)
        assert all(map(torch.equal, parameters(planned[0]), parameters(eager[0])))
    assert failed >= 3


def all_but(free_bytes):
    """Tensors that take the memory of the device, but for so much."""
    hog, size = [], 64 << 20
    while size >= 1 << 20:
        try:
            hog.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))
        except torch.OutOfMemoryError:
            size //= 2
    while hog and free_bytes > 0:
        free_bytes -= hog.pop().nbytes
    return hog
