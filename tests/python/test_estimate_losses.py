"""Estimates of models that return a loss beside other results."""

import types

import lowtide
import pytest
import torch
from torch import nn


class WithLogits(nn.Module):
    """Returns logits, beside a loss unless ``is_detached``, as ``kind`` says."""

    def __init__(self, kind, is_detached=False):
        super().__init__()
        self.linear, self.kind, self.is_detached = nn.Linear(16, 64), kind, is_detached

    def forward(self, x):
        logits = self.linear(x)
        loss = logits.pow(2).mean()
        named = {"loss": loss.detach() if self.is_detached else loss, "logits": logits}
        return {"loss": loss, "dict": named, "object": types.SimpleNamespace(**named)}[self.kind]


@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("kind", ["dict", "object"])
def test_a_loss_by_that_name_is_what_is_differentiated(kind, rows):
    def peak(model):
        return lowtide.estimate(model, torch.randn(rows, 16), optimizer="sgd").peak_bytes

    assert peak(WithLogits(kind)) == peak(WithLogits("loss"))
    if kind == "dict":
        assert peak(WithLogits(kind, is_detached=True)) > 0
