"""Ranges of sizes (``dynamic_shapes``): planned at the largest, checked at every size, eager's bits
and no search afterwards."""

import random
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.plans import graph_plans
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from torch import nn
from torch.export import Dim
from torch.nn import functional as F
from torch_memory import profiled

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Layers(nn.Module):
    """Rows that are treated apart, with dropout."""

    def __init__(self, width, depth):
        super().__init__()
        self.width = width
        self.layers = nn.Sequential(*(layer for _ in range(depth) for layer in (
            nn.Linear(width, width), nn.LayerNorm(width), nn.Dropout(0.2), nn.GELU())))

    def forward(self, x):
        return self.layers(x).square().mean()

    def inputs(self, size):
        return (torch.randn(size, self.width),)


class Transformer(nn.Module):
    """Attention over the whole length, dropout, a loss and logits beside it."""

    def __init__(self, width, heads, depth, most):
        super().__init__()
        self.heads = heads
        self.tokens, self.positions = nn.Embedding(30, width), nn.Embedding(most, width)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "norm": nn.LayerNorm(width), "mix": nn.Linear(width, 3 * width),
            "out": nn.Linear(width, width), "up": nn.Linear(width, 2 * width),
            "down": nn.Linear(2 * width, width)}) for _ in range(depth))
        self.head = nn.Linear(width, 30, bias=False)

    def forward(self, input_ids, labels):
        batch, length = input_ids.shape
        x = self.tokens(input_ids) + self.positions(torch.arange(length))
        for block in self.blocks:
            q, k, v = block["mix"](block["norm"](x)).view(
                batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                                   dropout_p=0.1 if self.training else 0.0)
            x = x + block["out"](mixed.transpose(1, 2).reshape(batch, length, -1))
            x = x + F.dropout(block["down"](F.gelu(block["up"](x))), 0.1, self.training)
        logits = self.head(x)
        return F.cross_entropy(logits[:, :-1].reshape(-1, 30), labels[:, 1:].reshape(-1)), logits

    def inputs(self, size):
        return tuple(torch.randint(0, 30, (2, size)) for _ in range(2))


class Images(nn.Module):
    """Convolutions, whose kernel PyTorch chooses by the batch, and statistics of it."""

    def __init__(self, channels):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU(),
            nn.Dropout(0.1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 5))

    def forward(self, x):
        return self.layers(x).square().mean()

    def inputs(self, size):
        return (torch.randn(size, 3, 12, 12),)


def case(kind, seed):
    """A random model, a range, and the dynamic_shapes for it."""
    rng = random.Random(f"{kind} {seed}")
    least = rng.choice([1, 2, 3, 5, 9])
    if kind == "layers":
        make = lambda: Layers(*shape)  # noqa: E731
        shape, most = (rng.choice([16, 24]), rng.randint(2, 4)), rng.randint(20, 200)
        places = {"x": {0: Dim("batch", min=least, max=most)}}
    elif kind == "transformer":
        least, most = max(2, least), rng.randint(17, 60)
        shape = (16, rng.choice([2, 4]), rng.randint(1, 2), most)
        make = lambda: Transformer(*shape)  # noqa: E731
        places = {name: {1: Dim("length", min=least, max=most)} for name in ("input_ids", "labels")}
    else:
        make = lambda: Images(*shape)  # noqa: E731
        shape, most = (rng.choice([4, 8]),), rng.randint(18, 40)
        places = ({0: Dim("batch", min=least, max=most)},)
    return make, least, most, places, rng


def built(make):
    torch.manual_seed(0)
    return make()


def trained(model, inputs):
    """The losses of a step for each input, and what they leave behind."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for given in inputs:
        found = model(*given)
        loss = found[0] if isinstance(found, tuple) else found
        loss.backward()
        losses.append(loss.detach())
        del found, loss
        optimizer.step()
        optimizer.zero_grad()
    return [*losses, *(p.detach().clone() for p in model.parameters()),
            *(b.clone() for b in model.buffers()), torch.get_rng_state()]


def same_bits(some, others):
    return len(some) == len(others) and all(map(torch.equal, some, others))


def whole_bytes(make, size, inputs):
    whole = lowtide.wrap(built(make), inputs, budget="100%", time_limit=0.3, optimizer="sgd",
                         stash=None)
    return whole.memory.budget


@pytest.fixture
def searches(monkeypatch):
    """The planner's searches, as they are counted."""
    found = []
    search = graph_plans.GraphPlans._search

    def counted(self, *arguments):
        found.append(arguments)
        return search(self, *arguments)

    monkeypatch.setattr(graph_plans.GraphPlans, "_search", counted)
    return found


KINDS = ("layers", "transformer", "images")
CASES = [(kind, seed) for kind in KINDS for seed in range(12)]


@pytest.mark.parametrize(("kind", "seed"), sweep(CASES, [(kind, 0) for kind in KINDS]))
def test_every_size_trains_within_the_budget_without_a_search(kind, seed, searches):
    make, least, most, places, rng = case(kind, seed)
    torch.manual_seed(seed)
    largest = built(make).inputs(most)
    share = rng.choice([0.0, 0.6, 0.8, 1.0])
    whole = whole_bytes(make, most, largest)
    try:
        wrapped = lowtide.wrap(built(make), built(make).inputs(most), budget=int(share * whole) or 1,
                               time_limit=0.5, optimizer="sgd", dynamic_shapes=places)
        budget = int(share * whole)
    except lowtide.InfeasibleError as error:
        budget = error.smallest_budget
        wrapped = lowtide.wrap(built(make), built(make).inputs(most), budget=budget,
                               time_limit=0.5, optimizer="sgd", dynamic_shapes=places)
    sizes = [least, most, *(rng.randint(least, most) for _ in range(8)), least + 1, most - 1]
    rng.shuffle(sizes)
    inputs = [built(make).inputs(size) for size in sizes]
    plain = trained(built(make), inputs)
    searches.clear()
    found = []
    held = sum(p.nbytes for p in wrapped.parameters()) + sum(b.nbytes for b in wrapped.buffers())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        peak, _, _ = profiled(lambda: found.append(trained(wrapped, inputs)))
    assert same_bits(found[0], plain)
    assert not searches
    assert session_of(wrapped)._meter.taken_bytes + held <= budget
    del peak
