"""Recurrent layers that Inductor compiles."""

import lowtide
import pytest
import torch
from lowtide.pytorch.dynamo.trace import traced
from lowtide.pytorch.inductor import PlannedPartition
from lowtide.pytorch.inductor.compiler import compiler

pytestmark = pytest.mark.usefixtures("one_thread")


class Recording(PlannedPartition):
    """Tells which ops are to be split, and compiles nothing."""

    def __call__(self, graph, *_, **__):
        raise lowtide.InputError(" ".join(str(node.target) for node in graph.graph.nodes))


@pytest.mark.parametrize("layer", [torch.nn.GRU, torch.nn.LSTM])
def test_they_are_traced_by_cells_with_the_dropout_between_them(layer):
    """PyTorch's own Python code of them has no dropout, and takes a layer of oneDNN that is for
    inference."""
    layers = layer(4, 4, num_layers=2, dropout=0.5)
    run = traced(lambda x: layers(x)[0].square().sum(), compiler(Recording(None)), fullgraph=True)
    with pytest.raises(lowtide.InputError) as ops:
        run(torch.ones(2, 3, 4))
    assert "rand" in str(ops.value) or "bernoulli" in str(ops.value)
    assert "mkldnn_rnn" not in str(ops.value)
