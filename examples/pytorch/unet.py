"""A U-Net within a budget, beside eager training and torch.utils.checkpoint."""

import torch
import torch.nn.functional as F
from comparison import Example, WithLoss, main

import torch_models


def make(full):
    batch, image, width = (8, 256, 32) if full else (2, 64, 8)
    net = torch_models.build("unet", width=width)
    target = torch.randint(0, 4, (batch, image, image))
    return Example(WithLoss(net, F.cross_entropy), (torch.randn(batch, 3, image, image), target),
                   tuple((part, "forward") for part in (net.stem, *net.down, *net.merge)))


if __name__ == "__main__":
    main(__doc__, make, budgets=["80%"], full_budgets=["70%", "60%"])
