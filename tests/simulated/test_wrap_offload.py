"""Values of the device that do not fit move to the host's memory and come back."""

import random
import warnings

import lowtide
import pytest
import torch
from both_devices import bits, trained
from lowtide.pytorch import simulated
from torch import nn
from torch.nn import functional as F

DEVICE = "simulated"

pytestmark = pytest.mark.usefixtures("own_cache")


class Layers(nn.Module):
    """A random choice of layers, with dropout and statistics."""

    def __init__(self, seed):
        super().__init__()
        choose = random.Random(seed)
        kinds = [nn.Tanh, nn.GELU, nn.Sigmoid, lambda: nn.Dropout(0.2), lambda: nn.LayerNorm(32),
                 lambda: nn.BatchNorm1d(32), lambda: nn.Linear(32, 32)]
        self.layers = nn.Sequential(nn.Linear(32, 32), *(choose.choice(kinds)() for _ in range(10)))
        self.last = nn.Linear(32, 5)

    def forward(self, x, y):
        return F.cross_entropy(self.last(self.layers(x)), y)


def training_of(seed, device, budget=None, **options):
    """The bits that some steps leave, and the wrapped model where there is a budget."""
    def prepare(model, batch):
        wrapped.append(lowtide.wrap(model, tuple(batch), budget, optimizer="adam", time_limit=0.3,
                                    **options))
        return wrapped[0]

    def make_batch():
        return torch.randn(256, 32), torch.randint(5, (256,))

    wrapped, named = [], {} if budget is None else {"prepare": prepare}
    torch.manual_seed(7)
    left = trained(device, lambda: Layers(seed), make_batch, lambda run, x, y: run(x, y),
                   make_optimizer=torch.optim.Adam, **named)
    return [bits(tensor) for tensor in left], wrapped[0] if wrapped else None


def host(bandwidth="5GB/s", latency=2):
    return lowtide.Offload("host", bandwidth=bandwidth, latency=latency)


@pytest.mark.parametrize("seed", range(6))
def test_random_models_train_as_on_the_cpu_within_the_budget(seed):
    simulated.reseed(seed)
    choose = random.Random(seed)
    wanted, _ = training_of(seed, "cpu")
    offload = host(choose.choice(["200MB/s", "2GB/s,1GB/s", "50GB/s"]), choose.choice([0, 20]))
    for percent in range(choose.choice([50, 65, 80]), 101, 10):
        try:
            strategy = choose.choice([None, "offload"])
            with warnings.catch_warnings(record=True) as said:
                got, wrapped = training_of(seed, DEVICE, f"{percent}%", offload=offload,
                                           strategy=strategy)
            break
        except lowtide.InfeasibleError:
            continue
    assert got == wanted
    memory = wrapped.memory
    has_no_room_afterwards = any("optimizer's own step" in str(one.message) for one in said)
    assert 0 < memory.measured_peak
    assert memory.measured_peak <= memory.budget or has_no_room_afterwards
    assert strategy is None or memory.moved.bytes_out > 0
    assert memory.moved.wait_seconds >= 0 and memory.moved.copy_seconds >= 0


@pytest.mark.parametrize("seed", range(8))
def test_no_order_of_late_streams_changes_a_bit(seed):
    simulated.reseed(seed)
    wanted, _ = training_of(1, "cpu")
    got, wrapped = training_of(1, DEVICE, "60%", offload=host(), strategy="offload")
    assert got == wanted
    assert wrapped.memory.moved.bytes_out > 0


def test_the_speed_of_the_host_is_measured():
    lines = []
    wanted, _ = training_of(1, "cpu")
    got, wrapped = training_of(1, DEVICE, "60%", offload="host", report=lines.append)
    assert got == wanted
    assert any(line.startswith("the host's memory: ") and "GB/s" in line for line in lines)


def test_all_that_fits_stays():
    _, wrapped = training_of(1, DEVICE, "100MiB", offload=host())
    assert wrapped.memory.moved.bytes_out == 0


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(lowtide.InputError, match="offload=\"host\"") as error:
        training_of(1, DEVICE, "60%", offload=tmp_path)
    assert isinstance(error.value, ValueError)


def test_the_host_is_refused_for_a_model_on_the_cpu():
    with pytest.raises(ValueError, match="name a folder"):
        training_of(1, "cpu", "60%", offload="host")
