"""A GPT with dropout within a budget, beside eager training and torch.utils.checkpoint."""

import torch
from comparison import Example, WithLoss, main

import torch_models


def make(full):
    batch, layers, width, length = (4, 8, 512, 512) if full else (2, 3, 64, 128)
    vocabulary = 8192 if full else 256
    net = torch_models.build("gpt", layers=layers, width=width, sequence=length,
                             vocabulary=vocabulary, dropout=0.1)
    tokens, following = (torch.randint(0, vocabulary, (batch, length)) for _ in range(2))
    return Example(WithLoss(net, torch_models.loss), (tokens, following),
                   tuple((block, "forward") for block in net.blocks))


if __name__ == "__main__":
    main(__doc__, make, budgets=["60%"], full_budgets=["60%", "40%"])
