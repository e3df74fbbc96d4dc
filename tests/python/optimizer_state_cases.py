"""Models and optimizers whose state moves, beside plain ones, for the tests of that."""

import contextlib
import functools
import os
import pathlib

import lowtide
import pytest
import torch
from on_device import DEVICE
from torch import nn, optim
from wrap_cases import built, same

on_cpu = pytest.mark.cpu_only("values of another device move to the host here")
WORDS, WIDTH = 12_000, 64
MIB = 1 << 20
OPTIMIZERS = {
    "sgd": functools.partial(optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "nesterov": functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": functools.partial(optim.Adam, lr=0.01, weight_decay=0.1),
    "amsgrad": functools.partial(optim.AdamW, lr=0.01, amsgrad=True),
    "nadam": functools.partial(optim.NAdam, lr=0.01, decoupled_weight_decay=True),
    "radam": functools.partial(optim.RAdam, lr=0.01),
    "adamax": functools.partial(optim.Adamax, lr=0.01),
    "adadelta": functools.partial(optim.Adadelta, lr=0.5),
    "adagrad": functools.partial(optim.Adagrad, lr=0.1, initial_accumulator_value=0.1),
    "rmsprop": functools.partial(optim.RMSprop, lr=0.01, momentum=0.9, centered=True),
    "asgd": functools.partial(optim.ASGD, lr=0.1),
    "rprop": functools.partial(optim.Rprop, lr=0.01),
}


class Words(nn.Module):
    """Parameters of many sizes, types and strides: a table that is larger than a piece of state, a
    number, weights with channels last, and some that only some steps use."""

    def __init__(self, words=WORDS):
        super().__init__()
        self.table = nn.Embedding(words, WIDTH)
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.LayerNorm(WIDTH))
        self.frozen = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.picture = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.shift = nn.Parameter(torch.ones(WIDTH, dtype=torch.bfloat16))
        self.side = nn.Linear(WIDTH, 700)

    def forward(self, tokens, with_side=False):
        x = self.frozen(self.body(self.table(tokens))) * self.scale + self.shift.float()
        y = self.picture(x.view(-1, 4, 4, 4)).square().mean() + x.square().mean()
        return y + self.side(x).tanh().mean() if with_side else y


def tokens(seed, count=64):
    made = torch.randint(WORDS, (count,), generator=torch.Generator("cpu").manual_seed(seed),
                         device="cpu")
    return made.to(DEVICE)


def place(folder, **options):
    """Slower memory of the tests' device."""
    to = folder if DEVICE == "cpu" else "host"
    return lowtide.Offload(to, **{"bandwidth": "1GB/s", "optimizer_state": True, **options})


def in_groups(model, make):
    """An optimizer with two groups of parameters."""
    small = [p for p in model.parameters() if p.numel() < 1000]
    large = [p for p in model.parameters() if p.numel() >= 1000]
    return make([{"params": large}, {"params": small, "lr": 0.02}])


def wrapped(model, optimizer, folder, budget="28MiB", optimizer_state=True, **options):
    return lowtide.wrap(model, (tokens(0),), budget, optimizer=optimizer, time_limit=0.3,
                        offload=place(folder, optimizer_state=optimizer_state), **options)


def steps(model, optimizer, count=4, first=0, schedulers=(), sides=(1, 2)):
    """Of which ``sides`` use all parameters."""
    for number in range(first, first + count):
        optimizer.zero_grad()
        model(tokens(number), number in sides).backward()
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()


def flattened(value):
    """Tensors and numbers of a state dict in one order."""
    if isinstance(value, dict):
        return [part for key in sorted(value, key=str) for part in flattened(value[key])]
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in flattened(one)]
    return [torch.as_tensor(value) if isinstance(value, (torch.Tensor, float, int)) else value]


def equal(one, other):
    one, other = flattened(one), flattened(other)
    return len(one) == len(other) and all(
        torch.equal(a, b) and a.dtype == b.dtype if isinstance(a, torch.Tensor) else a == b
        for a, b in zip(one, other))


def away(optimizer):
    return len(optimizer.state.away())


class Pair:
    """A plain training and one whose state moves, from the same start."""

    def __init__(self, folder, make=OPTIMIZERS["adam"], make_model=Words):
        self.plain, model = built(make_model), built(make_model)
        self.plain_optimizer = in_groups(self.plain, make)
        self.optimizer = in_groups(model, make)
        self.model = wrapped(model, self.optimizer, folder)

    def run(self, count=4, first=0, **options):
        for model, optimizer in ((self.plain, self.plain_optimizer),
                                 (self.model, self.optimizer)):
            steps(model, optimizer, count, first, **options)

    def require_same(self):
        assert same(list(self.model.parameters()), list(self.plain.parameters()))
        assert equal(self.optimizer.state_dict(), self.plain_optimizer.state_dict())


def bytes_of(tensors):
    return sum(tensor.nbytes for tensor in tensors)


def files_in(folder):
    """Descriptors of this process of files without a name there."""
    for link in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(f"{folder}/"):
                yield int(link.name)
