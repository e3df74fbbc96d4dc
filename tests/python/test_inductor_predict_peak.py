"""What a split is likely to take, beside what Inductor's own lowering says."""

import pytest
import torch
from lowtide.pytorch.inductor.lower.lowering import lowered
from lowtide.pytorch.inductor.predict.predict_peak import predict
from torch.fx.experimental.proxy_tensor import make_fx

VALUE = 64 * 512 * 4


def halves_of(function, *inputs):
    """A graph that stands for both halves of a step; its inputs stay where they are."""
    def named(primals_1, primals_2):
        return function(primals_1, primals_2)

    graph = make_fx(named, tracing_mode="fake")(*inputs)
    return graph, graph


def chain(x, weight):
    """Products with pointwise ops between them, which go into no memory but the last of each."""
    for _ in range(3):
        x = ((x @ weight).sin() * 2).exp().view(512, 64).view(64, 512)
    return (x,)


def far_apart(x, weight):
    """The first product is read by the last kernel, through a pointwise op and a view."""
    first = x @ weight
    late = first.sin().view(512, 64)
    y = first
    for _ in range(3):
        y = y @ weight
    return (y.view(512, 64) + late,)


def parts(x, weight):
    """Of two results the one is read at once and the other at the end."""
    values, indices = torch.max(x @ weight, 1)
    y = (x * values[:, None]) @ weight
    return y, indices


def passed_on(x, weight):
    """A state that every step changes and reads, such as that of a recurrent layer: Inductor
    writes it, or each step would read what all steps before it read."""
    y, state = x, x
    for _ in range(6):
        y = y @ weight
        state = state * y + y
        y = state.cos()
    return (y,)


def accumulated(x, weight):
    """A sum of products, such as the gradient of a weight that is read often."""
    total = x @ weight
    for _ in range(6):
        x = x @ weight
        total = total + x.sin() @ weight
    return (total,)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("function", [chain, far_apart, parts, passed_on, accumulated])
def test_bytes_are_those_of_inductors_buffers(function):
    halves = halves_of(function, torch.randn(64, 512), torch.randn(512, 512))
    likely, found = predict(halves), lowered(halves)
    assert abs(likely.peak_bytes - found.peak_bytes) <= VALUE
    assert likely.microseconds == pytest.approx(found.microseconds, rel=0.1)


@pytest.mark.usefixtures("one_thread")
def test_a_value_that_is_read_late_counts_until_then():
    x, weight = torch.randn(64, 512), torch.randn(512, 512)
    near, far = (predict(halves_of(f, x, weight)).peak_bytes for f in (chain, far_apart))
    assert far >= near + VALUE
