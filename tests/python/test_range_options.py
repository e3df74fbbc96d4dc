"""Ranges of sizes (``dynamic_shapes``) with options that write the graph anew."""

import lowtide
import pytest
import torch
from lowtide.pytorch.wrap import session_of
from stash_cases import all_stashed
from torch import nn
from torch.export import Dim

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

WIDTH, LONGEST, ROWS = 16, 40, 4
RANGE = {"x": {1: Dim("length", min=4, max=LONGEST)}}


class Attention(nn.Module):
    """Its products of matrices are views by the length."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])

    def forward(self, x):
        for layer in self.layers:
            mixed = torch.softmax(x @ torch.tanh(layer(x)).transpose(1, 2), -1)
            x = nn.functional.layer_norm(x + mixed @ layer(x), (WIDTH,))
        return (x - 1).abs().mean()


def wrapped(budget, **options):
    torch.manual_seed(0)
    return lowtide.wrap(Attention(), (torch.zeros(ROWS, LONGEST, WIDTH),), budget, optimizer="sgd",
                        time_limit=0.2, dynamic_shapes=RANGE, **options)


def gradients_of(model, x):
    model.zero_grad()
    model(x).backward()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.filterwarnings("ignore:.*holds activations with loss")
def test_values_of_an_open_length_are_held_in_fewer_bits(monkeypatch):
    all_stashed(monkeypatch, exact=False)
    model = wrapped("100%", stash="bf16")
    assert any(region.stashes for region in session_of(model).regions)
    torch.manual_seed(0)
    plain = Attention()
    x = torch.randn(ROWS, 9, WIDTH)
    for found, expected in zip(gradients_of(model, x), gradients_of(plain, x), strict=True):
        torch.testing.assert_close(found, expected, rtol=0.05, atol=1e-3)


def test_slices_of_all_sizes_run_in_the_order_of_the_largest():
    model = wrapped(None, slices=2)
    for length in (LONGEST // 2, 4):
        model(torch.randn(ROWS, length, WIDTH)).backward()
    orders = [[op.type for op in region.captured.graph.ops]
              for region in session_of(model).regions]
    assert len(orders) == 3
    assert orders[0] == orders[1] == orders[2]
