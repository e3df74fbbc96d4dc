"""Costs: products as measured, bytes at the edge of kernels, arithmetic of pointwise ops."""

import pytest
import torch
from joint_graphs import compiled, gradients
from lowtide.pytorch.inductor.predict import products
from lowtide.pytorch.inductor.predict.estimate import estimate
from lowtide.pytorch.inductor.predict.rates import BYTES_PER_US, FLOPS_PER_US, pointwise_operations
from torch import nn
from torch._functorch.partitioners import default_partition
from torch.fx.experimental.proxy_tensor import make_fx
from torch_memory import profiled


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


def test_a_product_costs_what_it_took(nodes, monkeypatch):
    """It is run once for all of its kind."""
    ran = []
    monkeypatch.setattr(products, "_measured", {})
    cost = products.KernelCost(12.5, 64)
    monkeypatch.setattr(products, "_run", lambda op, _: ran.append(op) or cost)
    assert estimate(nodes["mm"]) == estimate(nodes["mm"]) == 12.5
    assert ran == [torch.ops.aten.mm.default]


def test_a_product_is_run_with_values_of_its_sizes(nodes):
    assert 0 < products.kernel_cost(nodes["mm"]).microseconds < 1e6
    for name in ("sin", "t"):
        assert products.kernel_cost(nodes[name]) == products.NOTHING


def test_scratch_memory_is_what_a_convolution_allocates_beside_its_result():
    """As measured from outside, with images that have their channels last."""
    x = torch.randn(4, 24, 20, 20).to(memory_format=torch.channels_last)
    weight = torch.randn(40, 24, 3, 3).to(memory_format=torch.channels_last)
    node = next(node for node in make_fx(_convolution, tracing_mode="fake")(x, weight).graph.nodes
                if "convolution" in node.name)
    _convolution(x, weight)
    peak, _, _ = profiled(lambda: _convolution(x, weight))
    result = 4 * 40 * 20 * 20 * 4
    assert products.kernel_cost(node).scratch_bytes == peak - result


def _convolution(x, weight):
    return torch.ops.aten.convolution(x, weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)


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
