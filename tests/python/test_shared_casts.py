"""Layers that a model uses several times in mixed precision: eager PyTorch casts a weight once."""

import copy

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from torch import nn
from wrap_cases import same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

WIDTH = 16


class Loop(nn.Module):
    """A layer that runs four times, in an order of uses that `also` changes."""

    def __init__(self, also=None):
        super().__init__()
        self.layer, self.gate, self.also = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), also

    def forward(self, x):
        weight = self.layer.weight
        for index in range(4):
            x = torch.tanh(self.layer(x))
            if self.also == "a cast of its own" and index == 1:
                x = x + weight.to(torch.bfloat16)[0]
            if self.also == "single precision" and index == 2:
                x = x + weight.sum()
            if self.also == "another layer":
                x = x * torch.sigmoid(self.gate(x))
        if self.also == "products":
            x = x.matmul(weight).matmul(weight)
        if self.also == "casts of its own":
            x = x + weight.to(torch.bfloat16).sum() + (weight.to(torch.bfloat16) * 3).sum()
        return x.float().pow(2).mean()


class InBlocks(nn.Module):
    """Layers within one or more contexts of autocast; each has the options of one."""

    def __init__(self, *blocks):
        super().__init__()
        self.layer, self.blocks = nn.Linear(WIDTH, WIDTH), blocks

    def forward(self, x):
        for options in self.blocks:
            with torch.autocast(DEVICE, torch.bfloat16, **options):
                x = torch.tanh(self.layer(self.layer(x)))
        return x.float().pow(2).mean()


def steps_of(model, batch, count=2):
    """Losses and gradients, which add up."""
    losses = []
    for _ in range(count):
        loss = model(batch)
        loss.backward()
        losses.append(loss.detach())
    return [*losses, *(p.grad for p in model.parameters() if p.grad is not None)]


def casts_in(model):
    """Of the forward pass."""
    return sum(op.type == "aten::_to_copy" and op.phase == "forward"
               for region in session_of(model).regions for op in region.priced.graph.ops)


def transposed_in(model):
    """What views of weights are in the graph."""
    for region in session_of(model).regions:
        graph = region.priced.graph
        for op in graph.ops:
            if op.type == "aten::t":
                yield from (graph.tensors[index] for index in op.outputs)


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.randn(8, WIDTH).to(DEVICE)


@pytest.mark.parametrize("also, casts", [
    (None, 4), ("a cast of its own", 5), ("single precision", 4), ("another layer", 6),
    ("products", 4), ("casts of its own", 6)])
def test_a_layer_that_runs_again_has_one_cast_and_the_bits_of_autocast(also, casts, batch):
    eager = Loop(also).to(DEVICE)
    planned = lowtide.wrap(copy.deepcopy(eager), (batch,), precision="bf16", verbose=False)

    def under_autocast(x):
        with torch.autocast(DEVICE, torch.bfloat16):
            return eager(x)

    under_autocast.parameters = eager.parameters
    assert same(steps_of(planned, batch), steps_of(under_autocast, batch))
    assert casts_in(planned) == casts
    assert all(tensor.bytes == 0 for tensor in transposed_in(planned))


def test_a_frozen_layer_that_runs_again_has_the_bits_of_autocast(batch):
    eager = Loop("another layer").to(DEVICE)
    eager.layer.requires_grad_(False)
    planned = lowtide.wrap(copy.deepcopy(eager), (batch,), precision="bf16", verbose=False)
    with torch.autocast(DEVICE, torch.bfloat16):
        expected = steps_of(eager, batch, count=1)
    assert same(steps_of(planned, batch, count=1), expected)


@pytest.mark.parametrize("options, casts", [({}, 4), ({"cache_enabled": False}, 6)])
def test_autocast_within_a_model_keeps_casts_where_it_does_in_eager(options, casts, batch):
    eager = InBlocks(options).to(DEVICE)
    planned = lowtide.wrap(copy.deepcopy(eager), (batch,), verbose=False)
    assert same(steps_of(planned, batch), steps_of(eager, batch))
    assert casts_in(planned) == casts


def test_casts_are_not_shared_by_two_contexts(batch):
    eager = InBlocks({}, {}).to(DEVICE)
    planned = lowtide.wrap(copy.deepcopy(eager), (batch,), verbose=False)
    found, expected = steps_of(planned, batch), steps_of(eager, batch)
    assert same(found[:2], expected[:2])
    assert all(torch.allclose(ours, theirs, rtol=0.02, atol=1e-4)
               for ours, theirs in zip(found, expected, strict=True))


def test_sizes_that_change_share_casts_too(batch):
    eager = Loop().to(DEVICE)
    planned = lowtide.wrap(copy.deepcopy(eager), (batch,), precision="bf16", verbose=False,
                           dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=16)},))
    for rows in (8, 5, 3):
        with torch.autocast(DEVICE, torch.bfloat16):
            expected = steps_of(eager, batch[:rows], count=1)
        assert same(steps_of(planned, batch[:rows], count=1), expected)
