"""Buffers on several ranks, beside those of DistributedDataParallel on the same batches."""

import contextlib

import lowtide
import pytest
import torch
from lowtide.pytorch.shards.group import Group
from lowtide.pytorch.shards.shared_buffers import SharedBuffers
from lowtide.pytorch.wrap import session_of
from shards_cases import descent, mesh_of
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch_memory import profiled

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

WIDTH, ROWS = 24, 8


class Centred(nn.Module):
    """Less the mean of what it saw before: in training too, results follow from its buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))

    def forward(self, x):
        result = x - self.mean
        if self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return result


def made():
    torch.manual_seed(3)
    return nn.Sequential(Centred(), nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(),
                         nn.Linear(WIDTH, 4))


def batches(rank, steps):
    generator = torch.Generator().manual_seed(100 + rank)
    return [rank + torch.randn(ROWS, WIDTH, generator=generator) for _ in range(steps)]


def losses_and_buffers(model, optimizer, rank, without_sync=()):
    """Of steps, those of these numbers without communication."""
    losses = []
    for number, batch in enumerate(batches(rank, 6)):
        with model.no_sync() if number in without_sync else contextlib.nullcontext():
            loss = model(batch).square().mean()
            loss.backward()
        losses.append(loss.item())
        if number not in without_sync:
            optimizer.step()
            optimizer.zero_grad()
    return losses, {name: buffer.clone() for name, buffer in made_of(model).named_buffers()}


def made_of(model):
    return getattr(model, "module", model)


def within_ddp(model, shared):
    return DistributedDataParallel(model, forward_sync_buffers=shared)


def by_ddp(rank, without_sync=(), shared=True):
    model = made()
    optimizer = descent(model)
    return losses_and_buffers(within_ddp(model, shared), optimizer, rank, without_sync)


def by_lowtide(rank, sharding, ranks, without_sync):
    model = made()
    optimizer = descent(model)
    model = lowtide.wrap(model, batches(rank, 1)[0], optimizer=optimizer, mesh=mesh_of(ranks),
                         sharding=sharding, cache=False, time_limit=0.3)
    return losses_and_buffers(model, optimizer, rank, without_sync)


def by_lowtide_within(rank, without_sync, shared):
    model = made()
    optimizer = descent(model)
    model = lowtide.wrap(within_ddp(model, shared), batches(rank, 1)[0], optimizer=optimizer,
                         sharding="none", cache=False, time_limit=0.3)
    return losses_and_buffers(model, optimizer, rank, without_sync)


def require_alike(found, expected):
    for (losses, buffers), (wanted, others) in zip(found, expected):
        assert losses == pytest.approx(wanted, rel=1e-5)
        assert buffers.keys() == others.keys()
        for name, buffer in buffers.items():
            torch.testing.assert_close(buffer, others[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("without_sync", [(), (0, 1, 3)])
@pytest.mark.parametrize("sharding", ["none", "full"])
def test_buffers_are_those_of_ddp(two, sharding, without_sync):
    require_alike(two.run(by_lowtide, sharding, 2, without_sync),
                  two.run(by_ddp, without_sync))


def taken_to_send(rank, ranks):
    """Bytes, of PyTorch's allocator, while buffers come from the first rank, with their sum."""
    group = Group(mesh_of(ranks))
    buffers = [torch.full((WIDTH, WIDTH), float(rank)), torch.full((5,), rank), torch.tensor(rank)]
    peak, _, _ = profiled(lambda: group.copy_of_first(buffers))
    return peak, sum(buffer.sum().item() for buffer in buffers)


def test_messages_of_buffers_take_no_memory(two):
    """Which no budget counts."""
    assert two.run(taken_to_send, 2) == [(0, 0), (0, 0)]


@pytest.mark.parametrize("shared", [True, False])
def test_within_ddp_buffers_are_as_it_wants_them(two, shared):
    expected = two.run(by_ddp, (0, 1, 3), shared)
    require_alike(two.run(by_lowtide_within, (0, 1, 3), shared), expected)


def sent(rank, ranks):
    """By pass, the shapes of the buffers that are sent, where batch norm is trained, is frozen,
    and where one rank alone has written to a table; and all messages of an evaluation."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH))
    model.register_buffer("table", torch.zeros(3, 5))
    model = lowtide.wrap(model, batches(rank, 1)[0], mesh=mesh_of(ranks), sharding="none",
                         cache=False, time_limit=0.3)
    group, found = session_of(model).settings.group, []
    copy = group.copy_of_first
    group.copy_of_first = lambda tensors: (
        found.append([tuple(one.shape) for one in tensors]), copy(tensors))
    for number, batch in enumerate(batches(rank, 6)):
        if number == 2:
            model.eval()
        if number == 4 and rank == 1:
            model.table += 1
        model(batch).sum().backward()
    meet, group.meet = group.meet, None
    with torch.no_grad():
        model(batches(rank, 1)[0])
    group.meet = meet
    return found, model.table.sum().item()


def test_what_has_changed_is_sent_and_nothing_else(two):
    statistics = [(WIDTH,), (WIDTH,), ()]
    for found, total in two.run(sent, 2):
        assert found == [[], statistics, statistics, [], [(3, 5)], []]
        assert total == 0


class Told:
    """Of a group, what a rank tells the others and what it hears."""

    def __init__(self):
        self.flags = []

    def any_of(self, what, about, flags):
        self.flags = list(flags)
        return self.flags

    def copy_of_first(self, tensors):
        self.sent = list(tensors)


def test_a_buffer_that_another_took_the_place_of_has_changed():
    """As of a running mean that is no longer written in place."""
    module, told = Centred(), Told()
    shared = SharedBuffers(module, told)
    shared.begin_forward()
    assert told.flags == [False]
    module.mean = module.mean.clone()
    shared.begin_forward()
    assert told.flags == [True] and told.sent[0] is module.mean
