"""Values of the device that do not fit move to the host's memory or a disk, and come back."""

import random
import warnings

import lowtide
import pytest
import torch
from both_devices import bits, trained
from lowtide.pytorch import simulated
from lowtide.pytorch.plans.slower import Slower
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


def both(folder, bandwidth="500MB/s", **options):
    return lowtide.Offload("host", bandwidth="5GB/s", latency=2,
                           disk=lowtide.Offload(folder, bandwidth=bandwidth, latency=20), **options)


PLACES = {
    "host": lambda choose, _: host(choose.choice(["200MB/s", "2GB/s,1GB/s", "50GB/s"]),
                                   choose.choice([0, 20])),
    "disk": lambda choose, folder: lowtide.Offload(
        folder, bandwidth=choose.choice(["200MB/s", "2GB/s,1GB/s"]), latency=20),
    "both": lambda choose, folder: both(folder, choose.choice(["200MB/s", "2GB/s,1GB/s"])),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("place", PLACES)
def test_random_models_train_as_on_the_cpu_within_the_budget(place, seed, tmp_path):
    simulated.reseed(seed)
    choose = random.Random(seed)
    wanted, _ = training_of(seed, "cpu")
    offload = PLACES[place](choose, tmp_path)
    for percent in range(choose.choice([50, 65, 80]), 101, 10):
        try:
            strategy = choose.choice([None, "offload"])
            limit = choose.choice([None, "300KiB"]) if place == "both" else None
            with warnings.catch_warnings(record=True) as said:
                got, wrapped = training_of(seed, DEVICE, f"{percent}%", offload=offload,
                                           offload_budget=limit, strategy=strategy)
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
@pytest.mark.parametrize("place", ["host", "disk"])
def test_no_order_of_late_streams_changes_a_bit(place, seed, tmp_path):
    simulated.reseed(seed)
    wanted, _ = training_of(1, "cpu")
    offload = host() if place == "host" else lowtide.Offload(tmp_path, bandwidth="5GB/s")
    got, wrapped = training_of(1, DEVICE, "60%", offload=offload, strategy="offload")
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


@pytest.mark.parametrize("limit", [1 << 10, 80 << 10, 100 << 20])
def test_what_the_host_has_no_room_for_lies_on_the_disk(limit, tmp_path, monkeypatch):
    def noted(self, graph, plan, device):
        taken.append(plan.slower_places)
        return executor(self, graph, plan, device)

    executor, taken = Slower.executor, []
    monkeypatch.setattr(Slower, "executor", noted)
    simulated.reseed(1)
    wanted, _ = training_of(1, "cpu")
    got, wrapped = training_of(1, DEVICE, "60%", strategy="offload", offload_budget=limit,
                               offload=both(tmp_path))
    assert got == wanted
    assert wrapped.memory.measured_peak <= wrapped.memory.budget
    assert taken and all(first <= limit for first, _ in taken)
    assert any(first for first, _ in taken) == (limit > 1 << 10)
    assert any(second for _, second in taken) or limit == 100 << 20


@pytest.mark.parametrize("limits", [(None, None), ("1KiB", None), ("100MiB", "1KiB")])
def test_the_state_of_the_optimizer_lies_where_there_is_room(limits, tmp_path):
    def trained_on(device, **options):
        torch.manual_seed(7)
        model, batch = Layers(1).to(device), torch.randn(256, 32).to(device)
        labels = torch.arange(256).to(device) % 5
        optimizer = torch.optim.Adam(model.parameters())
        run = model if not options else lowtide.wrap(
            model, (batch, labels), optimizer=optimizer, time_limit=0.3, **options)
        for _ in range(3):
            optimizer.zero_grad()
            run(batch, labels).backward()
            optimizer.step()
        memory = run.memory if options else None
        return [bits(parameter) for parameter in model.parameters()], memory

    host_bytes, disk_bytes = limits
    wanted, _ = trained_on(DEVICE)
    got, memory = trained_on(DEVICE, budget="80%", offload_budget=host_bytes, offload=both(
        tmp_path, optimizer_state=True, disk_budget=disk_bytes))
    assert got == wanted
    assert memory.state_bytes > 0 and memory.state_moved.bytes_out > 0
    assert memory.measured_peak <= memory.budget


def test_the_state_of_a_group_that_is_added_lies_where_there_is_room_left(tmp_path):
    def trained_with(wrap):
        torch.manual_seed(7)
        model, batch = Layers(1).to(DEVICE), torch.randn(256, 32).to(DEVICE)
        labels = torch.arange(256).to(DEVICE) % 5
        optimizer = torch.optim.Adam([model.layers[0].weight])
        run = wrap(model, (batch, labels), optimizer)
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": [model.last.weight], "lr": 0.01})
            model.zero_grad()
            run(batch, labels).backward()
            optimizer.step()
        return [bits(parameter) for parameter in model.parameters()]

    def wrap(model, inputs, optimizer):
        limit = int(2.5 * model.layers[0].weight.nbytes)  # its state takes two, the other's one
        return lowtide.wrap(model, inputs, "90%", optimizer=optimizer, offload_budget=limit,
                            time_limit=0.3, offload=both(tmp_path, optimizer_state=True))

    assert trained_with(wrap) == trained_with(lambda model, *_: model)


def test_two_places_that_are_too_small_for_the_state_are_refused(tmp_path):
    model, batch = Layers(1).to(DEVICE), torch.randn(256, 32).to(DEVICE)
    with pytest.raises(lowtide.InputError, match="offload_budget allows 1.00 KiB and disk_budget"):
        lowtide.wrap(model, (batch, torch.zeros(256, dtype=torch.int64, device=DEVICE)), "80%",
                     optimizer=torch.optim.Adam(model.parameters()), offload_budget="1KiB",
                     offload=both(tmp_path, disk_budget="2KiB", optimizer_state=True))


@pytest.mark.parametrize("options, said", [
    (dict(to="/tmp", disk="/tmp"), "beside the host's memory"),
    (dict(to="host", disk="host"), "a folder"),
    (dict(to="host", disk_budget="1GiB"), "needs disk"),
    (dict(to="host", disk="/tmp", disk_budget="much"), "disk_budget is a number"),
    (dict(to="host", disk="/no/such/folder"), "/no/such/folder"),
])
def test_a_second_place_that_is_none_is_refused(options, said):
    with pytest.raises(lowtide.InputError, match=said):
        lowtide.Offload(**options)


def test_the_host_is_refused_for_a_model_on_the_cpu():
    with pytest.raises(ValueError, match="name a folder"):
        training_of(1, "cpu", "60%", offload="host")
