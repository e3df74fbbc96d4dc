"""How long the measurements of a range of sizes take is said before they are made."""

import lowtide
import pytest
import torch
from lowtide.pytorch.plans import planning
from lowtide.pytorch.plans.measuring_time import microseconds_to_measure
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 48)

    def forward(self, x):
        q, k, v = self.mix(x).view(1, x.shape[1], 3, 2, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).square().mean()


def estimated(length):
    """With times of a roofline, which are the same on all machines."""
    return lowtide.capture(Attention(), (torch.zeros(1, length, 16),))


def step_microseconds(graph):
    return sum(op.cost for op in graph.ops)


def test_times_grow_as_they_did():
    known = [estimated(length) for length in (1000, 20_000, 40_000)]
    largest = estimated(80_000)
    found = microseconds_to_measure(largest, known)
    assert found == pytest.approx(2 * step_microseconds(largest), rel=0.1)
    assert found > 7 * step_microseconds(known[-1])  # attention takes four times as long, twice


def test_nothing_is_known_from_one_size():
    graph = estimated(1000)
    assert microseconds_to_measure(graph, []) is None
    assert microseconds_to_measure(graph, [graph]) is None


def test_other_ops_say_nothing():
    other = lowtide.capture(nn.Linear(4, 4), (torch.zeros(2, 4),))
    assert microseconds_to_measure(estimated(1000), [other, other]) is None


def test_what_takes_long_is_said(monkeypatch):
    monkeypatch.setattr(planning, "_LONG_SECONDS", 0.0)
    said = []
    lowtide.wrap(Attention(), (torch.zeros(1, 64, 16),), budget="1GiB", time_limit=1,
                 report=said.append, dynamic_shapes={"x": {1: Dim("length", min=16, max=200)}})
    largest = [line for line in said
               if line.startswith("measuring") and "length=200" in line]
    assert all("s or more" in line and "smaller largest size" in line for line in largest)
    assert largest
