"""Estimated costs: floating-point operations where they are known, bytes at the edge of kernels."""

import pytest
import torch
from joint_graphs import compiled, gradients
from lowtide.pytorch.inductor.estimate import BYTES_PER_US, FLOPS_PER_US, estimate
from torch import nn
from torch._functorch.partitioners import default_partition


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64, bias=False)

    def forward(self, x):
        return (self.linear(x).sin().cos() * 2).sum(1)


@pytest.fixture(scope="module")
def nodes():
    """By name, the forward's nodes of a small module."""
    found = {}

    def partition(joint, inputs, **given):
        found.update({node.name: node for node in joint.graph.nodes})
        halves = default_partition(joint, inputs, **given)
        found.update({node.name: node for node in halves[0].graph.nodes})
        return halves

    module = Small()
    gradients(module, compiled(module, partition), (torch.randn(128, 64),))
    return found


def test_a_product_costs_its_operations(nodes):
    assert estimate(nodes["mm"]) == 2 * 128 * 64 * 64 / FLOPS_PER_US


def test_a_view_costs_nothing(nodes):
    assert estimate(nodes["t"]) == 0


def test_what_stays_in_a_kernel_is_neither_read_nor_written(nodes):
    """sin, cos, mul and sum are one kernel: it reads the product and writes the sum, and sin too,
    which is saved."""
    value = 128 * 64 * 4
    assert estimate(nodes["sin"]) == 2 * value / BYTES_PER_US
    assert estimate(nodes["cos"]) == estimate(nodes["mul"]) == 0
    assert estimate(nodes["sum_1"]) == 128 * 4 / BYTES_PER_US
