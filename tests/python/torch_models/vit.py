import functools

import torch
import torch.nn as nn

from .transformer import Block

EPSILON = 1e-6


class PatchEmbed(nn.Module):
    def __init__(self, width, patch=16):
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, patch)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class ViT(nn.Module):
    """timm's vit_*_patch16 with explicit attention; `dropout` is timm's proj_drop_rate."""

    def __init__(self, image=224, classes=1000, layers=12, width=384, heads=6, dropout=0.0):
        super().__init__()
        self.patch_embed = PatchEmbed(width)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width) * 1e-6)
        self.pos_embed = nn.Parameter(torch.randn(1, (image // 16) ** 2 + 1, width) * 0.02)
        self.blocks = nn.ModuleList(
            Block(width, heads, dropout, hidden_dropout=dropout, epsilon=EPSILON)
            for _ in range(layers))
        self.norm = nn.LayerNorm(width, EPSILON)
        self.head = nn.Linear(width, classes)

    def embed(self, x):
        x = self.patch_embed(x)
        return torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed

    def classify(self, x):
        return self.head(self.norm(x)[:, 0])

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.classify(x)


MODELS = {"vit-small": ViT, "vit-base": functools.partial(ViT, width=768, heads=12)}
