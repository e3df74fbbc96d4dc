"""What the Inductor mode measures on a device: the peak of a step, by the device's own counters."""

import lowtide
import pytest
import torch
import torch.nn as nn
from lowtide.pytorch.inductor.measure import peak_of_step

FLOATS = 1 << 18


def squared_twice(x, weight):
    return ((x * weight) ** 2).exp()


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(squared_twice(x, self.weight))


def test_the_peak_is_that_of_the_device():
    """A step that keeps more takes more, whatever the host takes meanwhile."""
    model, x = Scaled().to("simulated"), torch.randn(FLOATS, device="simulated")

    def run_beside_the_host(x):
        torch.zeros(100 * FLOATS)
        return model(x)

    eager = peak_of_step(model, model, (x,), {})
    assert eager >= 3 * 4 * FLOATS  # the product, the square, the result with its mask
    assert peak_of_step(run_beside_the_host, model, (x,), {}) == eager
    twice = peak_of_step(lambda x: model(model(x)), model, (x,), {})
    assert twice >= eager + 3 * 4 * FLOATS


def test_nothing_of_the_model_or_of_the_random_numbers_changes():
    model, x = Scaled().to("simulated"), torch.randn(8, device="simulated")
    state = torch.simulated.get_rng_state()
    peak_of_step(model, model, (x,), {})
    assert torch.equal(state, torch.simulated.get_rng_state())
    assert model.weight.grad is None


def test_two_devices_are_refused():
    model = Scaled().to("simulated")
    with pytest.raises(lowtide.InputError, match="on cpu and simulated:0"):
        peak_of_step(model, model, (torch.randn(8),), {})


def test_a_device_without_inductor_is_refused():
    model, x = Scaled().to("simulated"), torch.randn(8, device="simulated")
    with pytest.raises(lowtide.InputError, match="no code for the device simulated"):
        lowtide.wrap(model, x, "100%", mode="inductor")
