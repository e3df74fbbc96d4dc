"""lowtide.wrap on the device under what programs for a GPU set: autocast with a gradient scaler,
channels-last layout, a default device, streams of the caller's own."""

import contextlib

import lowtide
import pytest
import torch
from both_devices import bits
from lowtide.pytorch import simulated
from torch import nn
from torch.nn import functional as F

DEVICE = "simulated"
BUDGETS = [None, "85%"]

pytestmark = pytest.mark.usefixtures("own_cache")


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 8, 3), *(nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout2d(0.2),
                                                nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.GELU())
                                  for _ in range(3)), nn.AvgPool2d(2))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(),
                                                  nn.Dropout(0.1)) for _ in range(4)))

    def forward(self, x):
        return self.body(x)


def made(kind):
    torch.manual_seed(7)
    return kind()


def batches(*shape, count=3):
    torch.manual_seed(8)
    return [torch.randn(shape, device="cpu") for _ in range(count)]


def planned(model, x, budget):
    return lowtide.wrap(model, x, budget, optimizer="sgd", time_limit=0.3)


def with_scaler(device, half, budget=None):
    """Parameters, scales and the generator after steps that a gradient scaler skips or takes."""
    model = made(Rows).to(device)
    data = [x.to(device) for x in batches(32, 16)]
    run = model
    if budget is not None:
        with torch.autocast(device, dtype=half):
            run = planned(model, data[0], budget)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=2.0**24, growth_interval=1)
    torch.manual_seed(9)
    left = []
    for x in data * 2:
        with torch.autocast(device, dtype=half):
            loss = run(x).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        left += [loss.detach(), torch.tensor(scaler.get_scale())]
    return [bits(tensor) for tensor in [*left, *(p.detach() for p in model.parameters())]]


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_with_a_gradient_scaler(half):
    expected = with_scaler("cpu", half)
    scales = {scale for scale in expected[1:12:2]}
    assert len(scales) > 1, "no step was skipped or none grew the scale"
    assert with_scaler(DEVICE, half) == expected
    assert with_scaler(DEVICE, half, "85%") == expected


def in_channels_last(device, budget=None):
    model = made(Images).to(device, memory_format=torch.channels_last)
    data = [x.to(device).to(memory_format=torch.channels_last) for x in batches(6, 4, 10, 10)]
    run = model if budget is None else planned(model, data[0], budget)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(9)
    left = []
    for x in data:
        loss = F.cross_entropy(run(x), torch.arange(6, device=device) % 5)
        loss.backward()
        left += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        optimizer.step()
        optimizer.zero_grad()
    return [bits(tensor) for tensor in [*left, *model.state_dict().values()]]


def test_channels_last():
    expected = in_channels_last("cpu")
    assert in_channels_last(DEVICE) == expected
    assert in_channels_last(DEVICE, "85%") == expected


class AsksForTheFormat(nn.Module):
    """What it computes depends on how a convolution lays out its result."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 5)

    def forward(self, x):
        y = self.first(x)
        y = y * (2. if y.is_contiguous(memory_format=torch.channels_last) else 1.)
        return self.last(y.flatten(1).relu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convolutions_lay_out_their_results_as_on_the_cpu(dtype):
    """In an eager step, and where fake tensors stand for those of the device."""
    def gradients(device, budget=None):
        model = made(AsksForTheFormat).to(device, dtype, memory_format=torch.channels_last)
        x, = batches(4, 3, 8, 8)[:1]
        x = x.to(device, dtype).to(memory_format=torch.channels_last)
        run = model if budget is None else planned(model, x, budget)
        run(x).square().sum().backward()
        return [bits(parameter.grad) for parameter in model.parameters()]

    expected = gradients("cpu")
    assert gradients(DEVICE) == gradients(DEVICE, "100%") == expected


@contextlib.contextmanager
def default_device(device):
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


class MakesTensors(nn.Module):
    """On the default device, in its constructor and in its forward pass."""

    def __init__(self):
        super().__init__()
        self.inner = Rows()
        self.register_buffer("scale", torch.linspace(0.5, 1, 16))

    def forward(self, x):
        mask = torch.ones(16, 16).tril()[7]
        noise = torch.rand(16) + torch.arange(16) / 16
        return self.inner(x * self.scale) * mask + noise


def under_default_device(device, budget=None):
    model = made(MakesTensors)
    data = batches(32, 16)
    with default_device(device):
        model = model.to(device)
        assert torch.ones(1).device.type == device
        data = [x.to(device) for x in data]
        run = model if budget is None else planned(model, data[0], budget)
        torch.manual_seed(9)
        left = []
        for x in data:
            loss = run(x).square().mean()
            loss.backward()
            left.append(loss.detach())
        return [bits(tensor) for tensor in [*left, *(p.grad for p in model.parameters())]]


def traces_follow_the_default_device():
    with default_device(DEVICE):
        return torch.compile(lambda: torch.rand(1), backend="eager")().device.type == DEVICE


def test_a_default_device():
    expected = under_default_device("cpu")
    assert under_default_device(DEVICE) == expected
    if not traces_follow_the_default_device():
        pytest.skip("this PyTorch traces torch.rand on the CPU")
    assert under_default_device(DEVICE, "85%") == expected


def of_one_stream(device):
    model, data = made(Rows).to(device), batches(32, 16)
    torch.manual_seed(9)
    left = []
    for x in data:
        loss = model(x.to(device)).square().mean()
        loss.backward()
        left += [loss.detach(), *(p.grad.clone() for p in model.parameters())]
        model.zero_grad()
    return [bits(tensor) for tensor in left]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("seed", range(4))
def test_streams_of_the_callers_own(budget, seed):
    """Each step runs on another stream, and a third one copies its results to the host."""
    expected = of_one_stream("cpu")
    simulated.reseed(seed)
    model = made(Rows).to(DEVICE)
    pinned = [x.pin_memory() for x in batches(32, 16)]
    wrapped = planned(model, pinned[0].to(DEVICE), budget)
    steps, reader = [torch.simulated.Stream() for _ in range(2)], torch.simulated.Stream()
    before = torch.simulated.current_stream().record_event()
    torch.manual_seed(9)
    got = []
    for number, x in enumerate(pinned):
        stream = steps[number % 2]
        stream.wait_event(before)
        with torch.simulated.stream(stream):
            given = x.to(DEVICE, non_blocking=True)
            loss = wrapped(given).square().mean()
            loss.backward()
            results = [loss.detach(), *(p.grad for p in model.parameters())]
            done = stream.record_event()
        reader.wait_event(done)
        with torch.simulated.stream(reader):
            on_host = [torch.empty(t.shape, pin_memory=True).copy_(t, non_blocking=True)
                       for t in results]
            for tensor in results:
                tensor.record_stream(reader)
            before = reader.record_event()
        del results, loss
        model.zero_grad()
        before.synchronize()
        got += [bits(tensor) for tensor in on_host]
    assert got == expected


def test_a_step_within_the_context_of_an_accelerators_stream():
    expected = of_one_stream("cpu")
    model = made(Rows).to(DEVICE)
    data = batches(32, 16)
    side = torch.Stream(DEVICE)
    side.wait_stream(torch.accelerator.current_stream())
    got = []
    with side:
        wrapped = planned(model, data[0].to(DEVICE), "85%")
        torch.manual_seed(9)
        for x in data:
            loss = wrapped(x.to(DEVICE)).square().mean()
            loss.backward()
            got += [bits(t) for t in [loss.detach(), *(p.grad for p in model.parameters())]]
            model.zero_grad()
    torch.accelerator.current_stream().wait_stream(side)
    assert got == expected
