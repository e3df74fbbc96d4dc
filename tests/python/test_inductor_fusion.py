"""What Inductor is said to hold and to take, by how it fuses; nothing is compiled."""

import pytest
import torch
from lowtide.pytorch.inductor.lower.lowering import lowered
from lowtide.pytorch.inductor.predict import products
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

VALUE = 64 * 512 * 4
WEIGHTS = 8


def graphs_of(function, *inputs):
    """A graph that stands for both halves of a step."""
    graph = make_fx(function, select_decomp_table(), tracing_mode="fake")(*inputs)
    return graph, graph


def values(count):
    return [torch.randn(64, 512)] + [torch.randn(512, 512) for _ in range(count)]


def made_from_the_input_twice(x, *weights):
    """sin at the beginning, cos at the end: one kernel could make both."""
    y = x.sin()
    for weight in weights:
        y = y @ weight
    return (y * x.cos(),)


def used_at_the_end(x, *weights):
    """As above; what reads cos is a product, so that cos lies in memory."""
    *weights, last = weights
    y = x.sin()
    for weight in weights:
        y = y @ weight
    return (y @ last).sum(), (x.cos() @ last).sum()


def test_what_is_used_late_is_made_late():
    halves = graphs_of(used_at_the_end, *values(WEIGHTS))
    free, near = lowered(halves), lowered(halves, near=True)
    assert near.peak_bytes < free.peak_bytes <= near.peak_bytes + VALUE + 64
    assert free.microseconds < near.microseconds


def test_kernels_next_to_each_other_are_fused_as_ever():
    for function, weights in ((used_at_the_end, 2), (made_from_the_input_twice, WEIGHTS)):
        halves = graphs_of(function, *values(weights))
        assert lowered(halves) == lowered(halves, near=True)


def summed_on_the_way(x, *weights):
    """As the gradient of a bias that each step of a recurrent layer reads."""
    y, total = x, torch.zeros(512)
    for weight in weights:
        y = y @ weight
        total = total + y.sum(0)
    return y, total


def read_at_once_and_at_the_end(x, *weights):
    """Of two products, which nothing else reads."""
    first, second, third, *weights = weights
    sums = (x @ first).sin() + (x @ second).cos()
    y = x
    for weight in weights:
        y = y @ weight
    return (sums @ third).sum(), y * sums


@pytest.mark.parametrize("function, held", [(summed_on_the_way, WEIGHTS - 2),
                                            (read_at_once_and_at_the_end, 1)])
def test_what_is_read_on_the_way_is_not_held_until_the_end(function, held):
    halves = graphs_of(function, *values(WEIGHTS))
    free, near = lowered(halves), lowered(halves, near=True)
    assert near.peak_bytes <= free.peak_bytes - (held - 0.1) * VALUE


def test_a_product_counts_once(monkeypatch):
    """Whatever is fused into what it reads, and however many results it has."""
    monkeypatch.setattr(products, "_measured", {})
    monkeypatch.setattr(products, "_run", lambda op, _: products.KernelCost(1e6, 10**9))

    def step(x, weight, gradient):
        y = torch.ops.aten.convolution_backward(
            gradient.tanh(), x.sin(), weight, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1,
            (True, True, False))
        return y[0], y[1]

    x, weight = torch.randn(2, 32, 16, 16), torch.randn(32, 32, 3, 3)
    (half, _) = graphs_of(step, x, weight, torch.randn(2, 32, 16, 16))
    found = lowered((half, half))
    assert 2e6 <= found.microseconds <= 2.1e6
    values = sum(value.nbytes for value in (x, x, x, weight))
    assert 10**9 <= found.peak_bytes <= 10**9 + 2 * values
