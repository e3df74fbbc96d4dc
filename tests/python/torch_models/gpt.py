import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

from .transformer import Block


class GPT(nn.Module):
    """Pre-norm, learned positions, explicit attention; the head is the table of the embedding."""

    def __init__(self, layers=12, width=512, heads=8, sequence=512, vocabulary=256, dropout=0.1):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, dropout, weight_dropout=dropout, approximate="tanh")
            for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = dropout
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def embed(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        return F.dropout(x, self.dropout, self.training)

    def future(self, tokens):
        """What a position must not see: above the diagonal."""
        length = tokens.shape[1]
        return ~torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()

    def head(self, x):
        return F.linear(self.norm(x), self.wte.weight)

    def forward(self, tokens):
        x, masked_out = self.embed(tokens), self.future(tokens)
        for block in self.blocks:
            x = block(x, masked_out)
        return self.head(x)


def _gpt3(layers, width, heads):
    return functools.partial(GPT, layers=layers, width=width, heads=heads, sequence=2048,
                             vocabulary=50257)


MODELS = {"gpt": GPT,
          "gpt3-small": _gpt3(12, 768, 12), "gpt3-medium": _gpt3(24, 1024, 16),
          "gpt3-large": _gpt3(24, 1536, 16), "gpt3-xl": _gpt3(24, 2048, 16),
          "gpt3-2.7b": _gpt3(32, 2560, 32), "gpt3-6.7b": _gpt3(32, 4096, 32),
          "gpt3-13b": _gpt3(40, 5120, 40), "gpt3-175b": _gpt3(96, 12288, 96)}
