"""Estimated costs: floating-point operations where they are known, bytes at the edge of kernels."""

import pytest
import torch
from joint_graphs import compiled, gradients
from lowtide.pytorch.inductor.estimate import estimate
from lowtide.pytorch.inductor.rates import BYTES_PER_US, FLOPS_PER_US, pointwise_operations
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
    which is saved. What is left is arithmetic."""
    value = 128 * 64 * 4
    moved = {"sin": 2 * value, "cos": 0, "mul": 0, "sum_1": 128 * 4}
    for name, size in moved.items():
        arithmetic = pointwise_operations(nodes[name]) / FLOPS_PER_US
        assert estimate(nodes[name]) == pytest.approx(size / BYTES_PER_US + arithmetic)


def test_arithmetic_is_by_element_and_more_for_series(nodes):
    assert pointwise_operations(nodes["mul"]) == pointwise_operations(nodes["sum_1"]) == 128 * 64
    assert pointwise_operations(nodes["cos"]) > 10 * pointwise_operations(nodes["mul"])
    assert pointwise_operations(nodes["mm"]) == pointwise_operations(nodes["t"]) == 0
