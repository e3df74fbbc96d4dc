"""Models for tests on several ranks, and how they are trained with and without Lowtide."""

import dataclasses
from collections import Counter

import lowtide
import torch
from lowtide.pytorch.shards.collectives import GATHER_STARTS
from lowtide.pytorch.wrap import session_of
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

CLASSES = 10


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm_2(x))))


class Gpt(nn.Module):
    """With a head that is the embedding."""

    def __init__(self, vocabulary=60, width=32, layers=2, length=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        scores = self.head(self.norm(x))
        return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


class Layers(nn.Module):
    """Linear layers of odd widths, whose rows no number of ranks divides."""

    def __init__(self, widths=(20, 33, 47, CLASSES)):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in zip(widths, widths[1:])])
        self.unused = nn.Linear(3, 3)

    def forward(self, x, targets):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return nn.functional.cross_entropy(self.layers[-1](x), targets)


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 24, 3, stride=2), nn.BatchNorm2d(24), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, CLASSES))

    def forward(self, x, targets):
        return nn.functional.cross_entropy(self.body(x), targets)


def _tokens(generator, batch):
    return tuple(torch.randint(0, 60, (batch, 16), generator=generator) for _ in range(2))


def _labelled(*shape):
    def made(generator, batch):
        return (torch.randn(batch, *shape, generator=generator),
                torch.randint(0, CLASSES, (batch,), generator=generator))
    return made


#: By name: the model, and what makes a batch of so many rows.
CASES = {"gpt": (Gpt, _tokens), "layers": (Layers, _labelled(20)),
         "convolutions": (Convolutions, _labelled(3, 12, 12))}

#: With little beside its parameters.
DEEP = {"deep": (lambda: Layers((20, *[64] * 8, CLASSES)), _labelled(20))}


def made(case):
    torch.manual_seed(3)
    return (CASES | DEEP)[case][0]()


def batches(case, rank, steps=3, rows=4):
    generator = torch.Generator().manual_seed(100 + rank)
    return [(CASES | DEEP)[case][1](generator, rows) for _ in range(steps)]


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def descent(model):
    """By which rounding errors stay as small as they are."""
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


@dataclasses.dataclass
class StandInGroup:
    """Ranks that nothing is sent to: graphs are made as for so many of them."""

    size: int
    rank: int = 0
    backend: str = "gloo"
    reduces: bool = True
    key: str = "stand-in"
    alike: None = None

    @property
    def sharing(self):
        return self


def mesh_of(ranks):
    """``ranks``: how many, or how many copies of shards and how many shards."""
    shape = ranks if isinstance(ranks, tuple) else (ranks,)
    return init_device_mesh("cpu", shape, mesh_dim_names=tuple(f"d{n}" for n in range(len(shape))))


def wrapped(case, rank, ranks, optimizer=adam, **options):
    """A wrapped model and its optimizer."""
    model = made(case)
    stepped = optimizer(model)
    options = {"cache": False, "time_limit": 0.3, "verbose": False} | options
    return lowtide.wrap(model, batches(case, rank)[0], optimizer=stepped, mesh=mesh_of(ranks),
                        **options), stepped


def distributed(case, kind, ranks, optimizer=adam):
    """The same by PyTorch's own DDP, or FSDP2 with each child sharded."""
    model = made(case)
    if kind == "ddp":
        model = DistributedDataParallel(model, find_unused_parameters=case == "layers")
    else:
        fully_shard(model, mesh=mesh_of(ranks))
    return model, optimizer(model)


def trained(model, optimizer, steps):
    """The losses."""
    losses = []
    for batch in steps:
        loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def parameters_of(model):
    module = getattr(model, "module", model)
    return {name: whole(parameter.detach()).clone()
            for name, parameter in module.named_parameters()}


def ran(model):
    """By type, how often the plan of the last step runs ops."""
    session = session_of(model)
    region = session._graphs.latest
    return Counter(region.priced.graph.ops[action[1]].type
                   for action in session.plan_for(region).actions if action[0] == "run")


def needed(model):
    """By type, how many ops the last step has, each of which a plan runs at least once."""
    return Counter(op.type for op in session_of(model)._graphs.latest.priced.graph.ops)


def gathers(types):
    return sum(types[start] for start in GATHER_STARTS)
