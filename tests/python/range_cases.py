"""Models that are trained at the sizes of a range, and how."""

import random

import lowtide
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F


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
        rows = size if isinstance(size, tuple) else (size,)
        return (torch.randn(*rows, self.width),)


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


def losses_of(model, sizes):
    """Of a step for each size."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for size in sizes:
        found = model(*model.inputs(size))
        loss = found[0] if isinstance(found, tuple) else found
        del found  # logits that are held beside the backward pass take more
        loss.backward()
        losses.append(loss.detach())
        del loss
        optimizer.step()
        optimizer.zero_grad()
    return losses


def trained(model, sizes):
    """The losses, and what steps leave behind."""
    torch.manual_seed(1)
    return [*losses_of(model, sizes), *(p.detach().clone() for p in model.parameters()),
            *(b.clone() for b in model.buffers()), torch.get_rng_state()]


def same_bits(some, others):
    return len(some) == len(others) and all(map(torch.equal, some, others))


def wrapped_for(make, most, share, **settings):
    """Within this share of what keeping all takes at the largest size, or within the smallest
    budget."""
    def wrapped(budget):
        model = built(make)
        return lowtide.wrap(model, model.inputs(most), budget=budget, time_limit=0.5,
                            optimizer="sgd", **settings)

    budget = int(share * lowtide.wrap(built(make), built(make).inputs(most), budget="100%",
                                      time_limit=0.3, optimizer="sgd").memory.budget)
    try:
        return wrapped(max(1, budget))
    except lowtide.InfeasibleError as error:
        return wrapped(error.smallest_budget)


LENGTH = Dim("length", min=3, max=20)
LENGTHS = {"input_ids": {1: LENGTH}, "labels": {1: LENGTH}}
BATCH = {"x": {0: Dim("batch", min=2, max=40)}}


def transformer():
    return Transformer(16, 2, 1, 20)


def layers():
    return Layers(16, 3)
