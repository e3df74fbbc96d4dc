"""Products that are added to something are one op, as Inductor makes of them."""

from collections import Counter

import pytest
import torch
from lowtide.pytorch.inductor.lower import lowering
from lowtide.pytorch.inductor.predict.accumulated import with_accumulation
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.usefixtures("one_thread")


def sums(x, weight):
    """Of products alone, with a value, with a row, with a number, and of one that is read twice."""
    twice = x @ weight
    total = x @ x + weight @ x
    total = total + weight @ weight
    return total, x[0] + x @ weight, x @ weight + 1, twice + x, twice


@pytest.fixture(scope="module")
def graph():
    return make_fx(sums, tracing_mode="fake")(torch.randn(8, 8), torch.randn(8, 8))


def _targets(module):
    return Counter(node.target for node in module.graph.nodes if node.op == "call_function")


def test_they_are_those_that_inductor_makes(graph):
    inputs = [node.meta["val"] for node in graph.graph.find_nodes(op="placeholder")]
    theirs = lowering._prepared(graph, inputs, as_they_are=False)
    ours = with_accumulation(graph)
    for op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
        assert _targets(ours)[op] == _targets(theirs)[op] != _targets(graph)[op]


def test_results_stay(graph):
    given = torch.randn(8, 8), torch.randn(8, 8)
    for ours, wanted in zip(with_accumulation(graph)(*given), sums(*given), strict=True):
        torch.testing.assert_close(ours, wanted)


def test_a_graph_without_them_is_left_as_it_is():
    plain = make_fx(lambda x: (x @ x).sin(), tracing_mode="fake")(torch.randn(8, 8))
    assert with_accumulation(plain) is plain
