"""An unrolled LSTM within a budget, beside eager training and torch.utils.checkpoint."""

import torch
from comparison import Example, WithLoss, main

import torch_models


def make(full):
    batch, steps, width = (256, 128, 512) if full else (32, 24, 32)
    net = torch_models.build("lstm", width=width)
    tokens, following = (torch.randint(0, 256, (batch, steps)) for _ in range(2))
    return Example(WithLoss(net, torch_models.loss), (tokens, following), ((net, "run"),))


if __name__ == "__main__":
    main(__doc__, make, budgets=["85%"], full_budgets=["70%", "50%"])
