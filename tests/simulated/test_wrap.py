"""lowtide.wrap on the device: the CPU's bits within a budget of the device's bytes."""

import copy
import io
import pickle

import lowtide
import pytest
import torch
from both_devices import bits, trained
from lowtide.pytorch import simulated
from torch import nn
from torch.nn import functional as F

DEVICE = "simulated"


pytestmark = pytest.mark.usefixtures("own_cache")


class Convolutions(nn.Module):
    """Batch norm, whose statistics are updated, and dropout, whose numbers are drawn again."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(8, 5)

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.first(x))))
        return self.last(self.drop(x.sigmoid().tanh()).mean((2, 3)))


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        return x + self.out(F.gelu(attended.transpose(1, 2).flatten(2)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.Sequential(*(Attending() for _ in range(4))), nn.Linear(16, 5)

    def forward(self, x):
        return self.last(self.layers(x)).mean(1)


INPUTS = {Convolutions: (16, 3, 12, 12), Attention: (8, 24, 16)}


def training_of(kind, device, budget=None):
    """The bits that some steps of a model leave, and the wrapped model where there is a budget."""
    def prepare(model, batch):
        wrapped.append(lowtide.wrap(model, batch[0], budget, optimizer="adam", time_limit=0.3))
        return wrapped[0]

    def make_batch():
        return torch.randn(INPUTS[kind]), torch.randint(5, INPUTS[kind][:1])

    wrapped, named = [], {} if budget is None else {"prepare": prepare}
    torch.manual_seed(7)
    left = trained(device, kind, make_batch, lambda run, x, y: F.cross_entropy(run(x), y),
                   make_optimizer=torch.optim.Adam, **named)
    return [bits(tensor) for tensor in left], wrapped[0] if wrapped else None


def requested_bytes(which):
    return torch.simulated.memory_stats()[f"requested_bytes.all.{which}"]


@pytest.mark.parametrize("budget", ["100%", "80%", "65%"])
@pytest.mark.parametrize("kind", INPUTS)
def test_training_is_the_cpus_to_the_bit_within_the_budget(kind, budget):
    wanted, _ = training_of(kind, "cpu")
    got, wrapped = training_of(kind, DEVICE, budget)
    assert got == wanted
    assert 0 < wrapped.memory.measured_peak <= wrapped.memory.budget


def test_the_devices_own_counters_see_the_planned_bytes():
    """Of a step whose ops were measured before."""
    _, wrapped = training_of(Convolutions, DEVICE, "70%")
    x = torch.randn(INPUTS[Convolutions]).to(DEVICE)
    wrapped.zero_grad()
    before = requested_bytes("current")
    torch.simulated.reset_peak_memory_stats()
    wrapped(x).sum().backward()
    above = requested_bytes("peak") - before
    assert 0 < above <= wrapped.memory.planned_peak - wrapped.memory.existing
    wrapped.zero_grad()


@pytest.mark.parametrize("seed", range(8))
def test_no_order_of_late_streams_changes_a_bit(seed):
    simulated.reseed(seed)
    wanted, _ = training_of(Convolutions, "cpu")
    side = torch.simulated.Stream()
    with torch.simulated.stream(side):  # a second stream: what kernels write is late from now on
        noise = torch.ones(64, 64).pin_memory().to(DEVICE, non_blocking=True)
        got, _ = training_of(Convolutions, DEVICE, "70%")
    torch.simulated.current_stream().wait_stream(side)
    assert noise.sum().item() == 64 * 64
    assert got == wanted


class Cell(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(16, 16)

    def forward(self, x):
        state = self.cell(x)
        return state[0] if isinstance(state, tuple) else state


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell],
                         ids=lambda kind: kind.__name__)
def test_cells_that_are_traced_round_as_the_cpus_do(kind):
    def left_of(device):
        torch.manual_seed(7)
        model, x = Cell(kind).bfloat16(), torch.randn(32, 16, dtype=torch.bfloat16)
        model, x = model.to(device), x.to(device)
        run = model if device == "cpu" else lowtide.wrap(model, x, time_limit=0.3)
        result = run(x)
        result.square().mean().backward()
        return [bits(tensor) for tensor in (result, *(p.grad for p in model.parameters()))]

    assert left_of(DEVICE) == left_of("cpu")


def test_a_model_on_two_devices_is_refused():
    model = nn.Linear(4, 4).to(DEVICE)
    with pytest.raises(lowtide.InputError, match="simulated"):
        lowtide.wrap(model, torch.ones(2, 4))


def test_the_first_step_takes_no_more_than_later_ones():
    """What the optimizer will take is tried on the device before, on smaller parameters."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8))).to(DEVICE)
    wrapped = lowtide.wrap(model, optimizer="adam", cache=False, time_limit=0.3)
    x = torch.randn(4, 64).to(DEVICE)
    torch.simulated.reset_peak_memory_stats()
    wrapped(x).sum().backward()
    peak = torch.simulated.memory_stats()["requested_bytes.all.peak"]
    assert peak - wrapped.memory.outside <= wrapped.memory.planned_peak


def test_copies_and_files_of_a_wrapped_model_are_of_the_model():
    x = torch.randn(16, 3, 12, 12).to(DEVICE)
    model = Convolutions().to(DEVICE)
    wrapped = lowtide.wrap(model, x, "80%", optimizer="adam", time_limit=0.3)
    wrapped(x).sum().backward()
    wrapped.zero_grad()
    for other in (copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        assert type(other) is Convolutions
        assert {value.device.type for value in other.state_dict().values()} == {DEVICE}
        assert all(map(torch.equal, other.state_dict().values(), model.state_dict().values()))
    file = io.BytesIO()
    torch.save(wrapped.state_dict(), file)
    file.seek(0)
    fresh = Convolutions()
    fresh.load_state_dict(torch.load(file, map_location="cpu"))
    assert all(torch.equal(value, there.cpu()) for value, there in zip(
        fresh.state_dict().values(), model.state_dict().values()))
