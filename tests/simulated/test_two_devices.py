"""Models on two devices in one process: a plan, a budget and random numbers for each."""

import lowtide
import pytest
import torch
from both_devices import DEVICES, bits
from torch import nn

STEPS = 3


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class SumOfSquares(nn.Module):
    def forward(self, x):
        return x.square().sum()


class Training:
    """Steps of a model with dropout on one device, within a budget."""

    def __init__(self, device):
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Dropout(0.5),
                                   nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 4),
                                   SumOfSquares()).to(device)
        self.batches = [torch.randn(64, 32).to(device) for _ in range(STEPS)]
        self.wrapped = lowtide.wrap(self.model, self.batches[0], "80%", time_limit=0.3)
        self.states = torch.get_rng_state(), torch.simulated.get_rng_state()

    def forward(self, number):
        """The loss; draws go on where this training's last ones ended."""
        torch.set_rng_state(self.states[0])
        torch.simulated.set_rng_state(self.states[1])
        loss = self.wrapped(self.batches[number])
        self.states = torch.get_rng_state(), torch.simulated.get_rng_state()
        return loss

    def update(self):
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.sub_(parameter.grad, alpha=1e-3)
                parameter.grad = None

    def outcome(self):
        return [bits(parameter) for parameter in self.model.parameters()]


def test_steps_on_two_devices_take_turns():
    """The passes of one lie between those of the other; each has the bits that it has alone."""
    alone = []
    for device in DEVICES:
        training = Training(device)
        for number in range(STEPS):
            training.forward(number).backward()
            training.update()
        alone.append(training.outcome())

    both = [Training(device) for device in DEVICES]
    for number in range(STEPS):
        losses = [training.forward(number) for training in both]
        for training, loss in zip(both, losses):
            loss.backward()
            training.update()
    assert [training.outcome() for training in both] == alone
    # On the CPU the generators' states lie beside the step.
    memory = both[DEVICES.index("simulated")].wrapped.memory
    assert 0 < memory.measured_peak <= memory.budget


def test_one_loss_of_two_devices():
    """A backward pass that goes from one device's step to the other's."""
    together, alone = ([Training(device) for device in DEVICES] for _ in range(2))
    on_cpu, on_device = (training.forward(0) for training in together)
    (on_cpu + on_device.cpu()).backward()
    for training in alone:
        training.forward(0).backward()
    for each, other in zip(together, alone):
        assert gradients(each) == gradients(other)


def gradients(training):
    return [bits(parameter.grad) for parameter in training.model.parameters()]
