"""Models and trainings whose passes are recorded as graphs of the device."""

import random

import lowtide
import pytest
import torch
from both_devices import bits
from lowtide.pytorch import simulated
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch.nn import functional as F

DEVICE = "simulated"


class Mixed(nn.Module):
    """Convolution, batch norm with statistics, dropout twice."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.drop, self.last = nn.Dropout(0.3), nn.Linear(8, 5)

    def forward(self, x):
        x = self.drop(torch.relu(self.norm(self.first(x))))
        return self.last(self.drop(x.sigmoid().tanh()).mean((2, 3)))

    def input(self, size=8):
        return torch.randn(size, 3, 10, 10)


class Tokens(nn.Module):
    """Indices as inputs, tied weights, several results, attention."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Embedding(20, 16), nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        heads = self.mix(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + F.dropout(attended.transpose(1, 2).flatten(2), 0.2, self.training)
        return self.head(x), x.mean(1).t()

    def input(self, size=8):
        return torch.randint(20, (size, 6))


class Drawn(nn.Module):
    """Of random layers."""

    def __init__(self, seed):
        super().__init__()
        draw = random.Random(seed)
        make = {"linear": lambda: nn.Linear(32, 32), "norm": lambda: nn.LayerNorm(32),
                "batch": lambda: nn.BatchNorm1d(32), "drop": lambda: nn.Dropout(0.3),
                "gelu": nn.GELU, "tanh": nn.Tanh, "softplus": nn.Softplus}
        self.layers = nn.ModuleList(make[draw.choice(sorted(make))]() for _ in range(8))
        self.skips = [draw.random() < 0.3 for _ in self.layers]
        self.first, self.last = nn.Linear(32, 32), nn.Linear(32, 3)

    def forward(self, x):
        x = self.first(x)
        for layer, skip in zip(self.layers, self.skips):
            x = x + layer(x) if skip else layer(x)
        return self.last(x).square().mean()

    def input(self, size=64):
        return torch.randn(size, 32)


def loss_of(result):
    results = result if isinstance(result, tuple) else (result,)
    return sum(part.square().mean() for part in results)


def built(make, seed=0):
    torch.manual_seed(seed)
    return make().to(DEVICE)


def wrapped_of(make, budget="100%", example=True, **named):
    model = built(make)
    x = model.input().to(DEVICE) if example else None
    return lowtide.wrap(model, x, budget, time_limit=0.3, cuda_graph=True, optimizer="sgd-momentum",
                        **named)


def left_by(model, train, seed=5):
    """The bits of all that ``train`` yields, of the model's state, gradients, the generator's."""
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    values = [value.detach().cpu() for value in train(model, optimizer)]
    values += [p.grad for p in model.parameters() if p.grad is not None]
    values += [*model.state_dict().values(), torch.simulated.get_rng_state()]
    return [bits(value) for value in values]


def assert_as_eager(make, train, budget="100%", **named):
    """Returns the wrapped model after its steps."""
    wanted = left_by(built(make), train)
    wrapped = wrapped_of(make, budget, **named)
    assert left_by(wrapped, train) == wanted
    return wrapped


def executors_of(wrapped):
    return [executor for region in session_of(wrapped).regions for executor in region.executors]


def recordings(wrapped):
    return sum(executor.recordings for executor in executors_of(wrapped))


def steps(model, optimizer, count=5, set_to_none=True, **size):
    for _ in range(count):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss = loss_of(model(model.input(**size).to(DEVICE)))
        loss.backward()
        optimizer.step()
        yield loss


def steps_to_zero(model, optimizer):
    yield from steps(model, optimizer, set_to_none=False)


def accumulating(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        for _ in range(2):
            loss = loss_of(model(model.input().to(DEVICE)))
            loss.backward()
            yield loss
        optimizer.step()


def evaluating_between(model, optimizer):
    for _ in range(3):
        yield from steps(model, optimizer, 2)
        model.eval()
        with torch.no_grad():
            yield loss_of(model(model.input().to(DEVICE)))
        model.train()
        with torch.no_grad():
            yield loss_of(model(model.input(4).to(DEVICE)))


def failing_between(model, optimizer):
    for _ in range(3):
        yield from steps(model, optimizer, 1)
        with pytest.raises(ZeroDivisionError):
            loss_of(model(model.input().to(DEVICE))) / (1 // 0)


def twice_backward(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(model(model.input().to(DEVICE)))
        loss.backward(retain_graph=True)
        loss.backward()
        optimizer.step()
        yield loss


def two_passes_pending(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        losses = [loss_of(model(model.input().to(DEVICE))) for _ in range(2)]
        for loss in reversed(losses):
            loss.backward()
        optimizer.step()
        yield from losses


def inputs_with_gradients(model, optimizer):
    for _ in range(3):
        x = model.input().to(DEVICE).requires_grad_()
        optimizer.zero_grad()
        loss_of(model(x)).backward()
        yield x.grad
        optimizer.step()


def results_kept(model, optimizer):
    """What a step returned stays as it was."""
    kept = []
    for _ in range(4):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        kept.append(result)
        loss_of(result).backward()
        optimizer.step()
    for result in kept:
        yield from result if isinstance(result, tuple) else (result,)


def gradients_kept(model, optimizer):
    kept = []
    for _ in range(3):
        loss = loss_of(model(model.input().to(DEVICE)))
        kept += torch.autograd.grad(loss, list(model.parameters()))
    yield from kept


def other_sizes(model, optimizer):
    for _ in range(3):
        for size in (8, 4):
            yield from steps(model, optimizer, 2, size=size)


def parameters_exchanged(model, optimizer):
    for step in range(6):
        if step % 2:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.data = parameter.data.clone()
        yield from steps(model, optimizer, 1)


def state_assigned(model, optimizer):
    yield from steps(model, optimizer, 3)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    yield from steps(model, optimizer, 1)
    model.load_state_dict(state, assign=True)
    yield from steps(model, torch.optim.SGD(model.parameters(), lr=0.05), 3)


def hooks_on_the_result(model, optimizer):
    for _ in range(3):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        result = result[0] if isinstance(result, tuple) else result
        result.register_hook(lambda gradient: gradient * 2)
        result.square().sum().backward()
        yield result
        optimizer.step()


def expanded_gradients(model, optimizer):
    """The gradients of the results are one number for all elements."""
    for _ in range(4):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        results = result if isinstance(result, tuple) else (result,)
        loss = sum(0.1 * part.sum() for part in results)
        loss.backward()
        optimizer.step()
        yield loss


def transposed_gradients(model, optimizer):
    for _ in range(4):
        optimizer.zero_grad()
        result = model(model.input().to(DEVICE))
        result = result[0] if isinstance(result, tuple) else result
        factor = torch.randn(result.shape[::-1]).to(DEVICE)
        (result.permute(*reversed(range(result.dim()))) * factor).sum().backward()
        optimizer.step()
        yield result


def usually(cases, usual):
    """The cases, of which those that are not ``usual`` are for long runs of the tests."""
    usual = list(usual)
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)),
                         marks=() if case in usual else pytest.mark.sweep) for case in cases]


def launches_of_a_step(wrapped, x):
    wrapped.zero_grad()
    before = simulated.launches()
    result = wrapped(x)
    gradient = torch.ones_like(result)
    result.backward(gradient)
    return simulated.launches() - before


@torch.library.custom_op("lowtide_test::peeks", mutates_args=())
def peeks(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


@peeks.register_fake
def _(x):
    return torch.empty_like(x)


peeks.register_autograd(lambda context, gradient: gradient * 2)


class Peeking(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(peeks(self.linear(x)))  # the line that is named

    def input(self, size=2):
        return torch.randn(size, 4)
