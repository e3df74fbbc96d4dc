"""Collectives as ops: their numbers, and what the backend takes behind them."""

import collections

import pytest
import torch
from lowtide import _runtime
from lowtide.pytorch.shards.collectives import IN_FLIGHT
from lowtide.pytorch.shards.group import Group
from on_ranks import Ranks
from shards_cases import batches, descent, made, mesh_of, trained, wrapped

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

_ops = torch.ops.lowtide
ROWS, WIDTH = 12, 1 << 14


def given(rank, seed):
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(10 * seed + rank))


def collectives(rank, ranks):
    """By name, the results, and the bytes that each call takes beside its own results."""
    group = Group(mesh_of(ranks)).key
    tensors = [given(rank, seed) for seed in range(2)]
    starts = {"gather": lambda: _ops.gather_start(tensors, group),
              "scatter": lambda: _ops.scatter_start(tensors, group),
              "exchange": lambda: _ops.exchange_start(tensors, group),
              "coalesced gather": lambda: _ops.coalesced_gather_start(tensors, group),
              "coalesced exchange": lambda: _ops.coalesced_exchange_start(tensors, group),
              "scatter of one": lambda: _ops.scatter_start(tensors[:1], group),
              "reduce": lambda: _ops.reduce_start(tensors, group),
              "reduce of one": lambda: _ops.reduce_start(tensors[:1], group)}
    elements = [tensor.numel() for tensor in tensors]
    waits = {"gather": _ops.gather_wait, "reduce": _ops.reduce_wait,
             "scatter": lambda pending: _ops.scatter_wait(pending, group),
             "exchange": lambda pending: _ops.exchange_wait(pending, tensors, group),
             "coalesced gather": lambda pending: _ops.coalesced_gather_wait(
                 pending, elements, group),
             "coalesced exchange": lambda pending: _ops.coalesced_exchange_wait(pending, group)}
    found = {}
    for name, start in starts.items():
        _runtime.reset_peaks()
        before = _runtime.taken_bytes()
        pending = start()
        result = waits[name.removesuffix(" of one")](pending)
        behind = _runtime.taken_peak_bytes() - before - pending.nbytes - result.nbytes
        found[name] = result.clone(), behind
        assert len(IN_FLIGHT) == 0
    return found


class Counted:
    """A process group whose calls are counted by name."""

    def __init__(self, group):
        self.group, self.calls = group, collections.Counter()

    def __getattr__(self, name):
        self.calls[name] += 1
        return getattr(self.group, name)


def messages(rank, ranks):
    """By collective, the calls of the process group that two tensors take."""
    group, found = Group(mesh_of(ranks)), {}
    tensors = [given(rank, seed) for seed in range(2)]
    for name, start, wait in (("gather", _ops.gather_start, _ops.gather_wait),
                              ("exchange", _ops.exchange_start,
                               lambda pending: _ops.exchange_wait(pending, tensors, group.key)),
                              ("coalesced gather", _ops.coalesced_gather_start,
                               lambda pending: _ops.coalesced_gather_wait(
                                   pending, [tensor.numel() for tensor in tensors], group.key)),
                              ("coalesced exchange", _ops.coalesced_exchange_start,
                               lambda pending: _ops.coalesced_exchange_wait(pending, group.key)),
                              ("reduce", _ops.reduce_start, _ops.reduce_wait)):
        counted = group.data = Counted(group.data)
        wait(start(tensors, group.key))
        group.data, found[name] = counted.group, dict(counted.calls)
    return found


def test_each_rank_sends_others_what_they_lack_and_no_more():
    processes = Ranks(3)
    try:
        results = processes.run(messages, 3)
    finally:
        processes.close()
    swapped = {"send": 4, "recv": 4}  # of two tensors, with two others
    coalesced = {"send": 2, "recv": 2}
    assert results == 3 * [{"gather": swapped, "exchange": swapped, "coalesced gather": coalesced,
                            "coalesced exchange": coalesced, "reduce": {"allreduce": 1}}]


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives_compute_and_take_nothing_behind(ranks):
    processes = Ranks(ranks)
    try:
        results = processes.run(collectives, ranks)
    finally:
        processes.close()
    tensors = [[given(rank, seed) for rank in range(ranks)] for seed in range(2)]
    means = [torch.stack(of_ranks).mean(0) for of_ranks in tensors]
    for rank, found in enumerate(results):
        whole = torch.cat([torch.cat(of_ranks).flatten() for of_ranks in tensors])
        assert torch.equal(found["gather"][0], whole)
        assert torch.equal(found["coalesced gather"][0], whole)
        assert torch.equal(found["coalesced exchange"][0], found["exchange"][0])
        own = [mean.chunk(ranks)[rank].flatten() for mean in means]
        torch.testing.assert_close(found["scatter"][0], torch.cat(own))
        torch.testing.assert_close(found["exchange"][0], torch.cat(own))
        torch.testing.assert_close(found["scatter of one"][0], own[0])
        torch.testing.assert_close(found["reduce"][0], torch.cat(means).flatten())
        torch.testing.assert_close(found["reduce of one"][0], means[0])
        # Numbers are wrapped as tensors on their way to a kernel.
        assert {name: behind for name, (_, behind) in found.items() if behind > 1024} == {}


def losses_alone(rank):
    model, optimizer = wrapped("layers", rank, 1, descent, sharding="full")
    return trained(model, optimizer, batches("layers", rank))


def test_a_mesh_of_one_rank_sends_nothing():
    processes = Ranks(1)
    try:
        [losses] = processes.run(losses_alone)
    finally:
        processes.close()
    model = made("layers")
    assert losses == pytest.approx(trained(model, descent(model), batches("layers", 0)), rel=1e-5)
