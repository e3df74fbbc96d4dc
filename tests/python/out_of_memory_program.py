"""Trains while the system gives the process little memory now and then, and compares with eager
training. Its arguments: the budget, and a folder to which values may move, or nothing."""

import gc
import resource
import sys

import lowtide
import torch
from torch import nn

#: What a step may take beside what the process has: from too little to more than it needs. With
#: less, the C library ends a process that starts a thread.
FREE_MIB = 16, 40, 64, 88, 112, 400
PAGE = resource.getpagesize()


def allow(free_bytes):
    """None: all that there is."""
    if free_bytes is not None:
        with open("/proc/self/statm", encoding="ascii") as file:
            free_bytes += int(file.read().split()[0]) * PAGE
    unlimited = resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_AS, (unlimited if free_bytes is None else free_bytes,
                                            unlimited))


def made():
    torch.manual_seed(1)
    model = nn.Sequential(*(layer for _ in range(6) for layer in (
        nn.Linear(512, 512), nn.Dropout(0.1), nn.Tanh())))
    return model, torch.optim.Adam(model.parameters())


def passes(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss.item()


def train(model, optimizer, x, free):
    """The losses, and the errors of steps that were tried with too little memory, after each of
    which the step is tried again with all of it."""
    losses, errors = [], []
    for free_bytes in free:
        gc.collect()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        random_state = torch.get_rng_state()
        allow(free_bytes)
        try:
            loss = passes(model, x)
        except (RuntimeError, MemoryError) as error:
            loss = None
            errors.append(str(error))
        allow(None)
        if loss is None:
            assert all(map(torch.equal, before, model.parameters()))
            optimizer.zero_grad()
            torch.set_rng_state(random_state)
            loss = passes(model, x)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    return losses, errors


def main(budget, folder=None):
    torch.set_num_threads(1)
    x = torch.randn(8192, 512)
    model, optimizer = made()
    wanted, _ = train(model, optimizer, x, [None] * len(FREE_MIB))
    given, its_optimizer = made()
    wrapped = lowtide.wrap(given, x, budget, optimizer=its_optimizer, offload=folder,
                           time_limit=0.5)
    got, errors = train(wrapped, its_optimizer, x, [mib << 20 for mib in FREE_MIB])
    assert got == wanted
    assert all(map(torch.equal, model.parameters(), given.parameters()))
    assert 0 < len(errors) < len(FREE_MIB), errors
    for error in errors:
        assert "memory" in error or "thread" in error or "bad_alloc" in error, error


main(*sys.argv[1:])
