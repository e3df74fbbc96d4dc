"""Dropout in half types rounds as eager PyTorch's does."""

import contextlib
import copy
import itertools

import lowtide
import pytest
import torch
from on_device import DEVICE
from sweep import sweep
from torch import nn
from torch.nn import functional as F
from wrap_cases import same

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Dropping(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p
        self.layers = nn.Sequential(nn.Linear(32, 48), nn.Dropout(p), nn.GELU(), nn.Linear(48, 32),
                                    nn.Dropout(p), nn.LayerNorm(32))
        self.attention = nn.TransformerEncoderLayer(32, 4, 64, dropout=p, batch_first=True)

    def forward(self, x):
        return F.dropout(self.attention(self.layers(x)), self.p, self.training)


def steps(model, x, context):
    """What two steps compute, with gradients that are added up."""
    torch.manual_seed(4)
    left = []
    for _ in range(2):
        with context():
            result = model(x)
        result.float().pow(2).sum().backward()
        left.append(result.detach())
    return [*left, *(p.grad.clone() for p in model.parameters()), torch.get_rng_state()]


TYPES = [(torch.float32, False),  # and whether by autocast, which computes in half types
         *itertools.product([torch.bfloat16, torch.float16], [False, True])]


@pytest.mark.parametrize("dtype, autocast, p, budget", sweep(
    [(*kind, *amount) for kind in TYPES for amount in [(0.1, None), (0.3, "75%"), (1.0, None)]],
    usual=[(torch.float32, False, 0.3, "75%"), (torch.bfloat16, False, 0.1, None),
           (torch.bfloat16, True, 0.3, "75%"), (torch.float16, False, 0.3, "75%"),
           (torch.float16, True, 1.0, None)]))
def test_training_is_eager_training_to_the_bit(dtype, autocast, p, budget):
    def context():
        return torch.autocast(DEVICE, dtype) if autocast else contextlib.nullcontext()

    torch.manual_seed(0)
    plain = Dropping(p).to(torch.float32 if autocast else dtype)
    if autocast:  # attention with dropout rounds otherwise there (docs/explanation/exactness.md)
        plain.attention.self_attn.dropout = 0.0
    wrapped = lowtide.wrap(copy.deepcopy(plain), budget=budget, optimizer="none", time_limit=0.3,
                           when_infeasible="warn")
    x = torch.randn(8, 12, 32, dtype=torch.float32 if autocast else dtype)
    assert same(steps(wrapped, x, context), steps(plain, x, context))
