"""The zoo's models written in PyTorch, with the same names of parameters and buffers.

`build(name, **sizes)` gives the module; its forward returns the logits (a tuple for a model with
an auxiliary head). `loss(output, target)` is what the training graph minimises; `WithLoss(module)`
returns that.
"""

import torch.nn.functional as F
from torch import nn

from . import densenet, fcn, gpt, inception, lstm, mlp, mobilenet, resnet, segnet, unet, vgg, vit

FAMILIES = (mlp, vgg, resnet, mobilenet, densenet, inception, unet, fcn, segnet, lstm, gpt, vit)
MODELS = {name: make for family in FAMILIES for name, make in family.MODELS.items()}
AUXILIARY_WEIGHT = 0.4


def build(name, **sizes):
    return MODELS[name](**sizes).train()


def loss(output, target):
    if isinstance(output, tuple):
        logits, auxiliary = output
        return loss(logits, target) + AUXILIARY_WEIGHT * loss(auxiliary, target)
    if output.dim() == 3:  # (batch, time, classes)
        return F.cross_entropy(output.flatten(0, 1), target.flatten())
    return F.cross_entropy(output, target)


class WithLoss(nn.Module):
    """`net` with its loss for a target."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, target):
        return loss(self.net(x), target)
