"""ResNet-50 within a budget, beside eager training and torch.utils.checkpoint."""

import functools

import torch
import torch.nn.functional as F
from comparison import Example, WithLoss, main

import torch_models


def make(full):
    batch, image = (16, 224) if full else (8, 64)
    net = torch_models.build("resnet50")
    blocks = [block for i in range(1, 5) for block in getattr(net, f"layer{i}")]
    return Example(
        WithLoss(net, F.cross_entropy),
        (torch.randn(batch, 3, image, image), torch.randint(0, 1000, (batch,))),
        ((net, "stem"), *((block, "forward") for block in blocks)),
        functools.partial(torch.optim.SGD, lr=0.01, momentum=0.9, fused=True))


if __name__ == "__main__":
    main(__doc__, make, budgets=["95%"], full_budgets=["60%", "45%"])
