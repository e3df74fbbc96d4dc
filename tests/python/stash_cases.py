"""Models whose backward pass reads what can be held in fewer bits, and that hold all of it so."""

import random

import torch
from lowtide.pytorch.autograd import graphs
from lowtide.pytorch.autograd.attempt import Chosen
from on_device import DEVICE
from torch import nn
from torch.nn import functional as F


class Pooled(nn.Module):
    """Convolutions, ReLUs, dropout, and pooling of a random kind after each."""

    def __init__(self, seed):
        super().__init__()
        generator = random.Random(seed)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(channels, 8, 3, padding=1) for channels in (3, 8, 8))
        self.pools = [generator.choice(POOLS) for _ in self.convolutions]
        self.drops = [generator.choice((0.0, 0.3)) for _ in self.convolutions]
        self.by_norm = nn.BatchNorm2d(8) if generator.random() < 0.5 else nn.Identity()
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        for convolution, pool, drop in zip(self.convolutions, self.pools, self.drops):
            x = F.relu(self.by_norm(convolution(x)))
            x = F.dropout(pool(x) if x.shape[-1] >= 8 else x, drop, self.training)
        return self.head(x.mean((2, 3)))


POOLS = (
    lambda x: F.max_pool2d(x, 2),
    lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
    lambda x: F.max_pool2d(x, (2, 3), stride=1, dilation=2, ceil_mode=True),
    lambda x: F.adaptive_max_pool2d(x, 9),
    lambda x: F.avg_pool2d(x, 2),
    lambda x: F.adaptive_avg_pool2d(x, 7),
    lambda x: F.max_pool1d(x.flatten(2), 3).unflatten(2, (-1, 1)).expand(-1, -1, -1, 8),
    lambda x: F.max_pool3d(x.unsqueeze(1), (1, 2, 2)).squeeze(1),
    lambda x: x.max(-1, keepdim=True)[0] * x,
    lambda x: x.sort(-1)[0],
    lambda x: torch.where(x > 0.1, x, -x),
    lambda x: x.masked_fill(x.detach() > 1, 0.5),
)


def images(channels_last=False):
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return (torch.randn(4, 3, 24, 24, device=DEVICE).to(memory_format=layout),)


class Rectified(nn.Module):
    """A loss. Results of ReLUs that pooling alone reads, and dropout."""

    def __init__(self):
        super().__init__()
        layers, channels = [], 3
        for width in (16, 24, 32):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            channels = width
        self.layers = nn.Sequential(*layers, nn.Dropout(0.2))

    def forward(self, x):
        return self.layers(x).square().mean()


class Unpooled(nn.Module):
    """Indices of pooling that the forward pass reads too."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x):
        pooled, indices = F.max_pool2d(self.into(x), 2, return_indices=True)
        return self.out(F.max_unpool2d(pooled.tanh(), indices, 2))


def all_stashed(monkeypatch, exact=True):
    """Regions stash all that they may, whatever that costs; a list that they are added to."""
    made = []

    def with_all(stashes, settings, make, attempt, smallest, soon):
        chosen = stashes.exact if exact else stashes.found
        region = make(settings, chosen, make(settings))
        made.append(region)
        return Chosen(region, {}, keeps_all=False)

    monkeypatch.setattr(graphs, "cheapest_region", with_all)
    return made
