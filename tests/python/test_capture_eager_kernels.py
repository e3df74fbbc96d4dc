"""Tracing with the kernels that eager PyTorch runs."""

import copy

import lowtide
import pytest
import torch
import torch.nn.functional as F
from lowtide.pytorch.capture import eager_kernels
from on_device import DEVICE
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func


def test_eager_kernels_end_with_their_context():
    def traced():
        torch._dynamo.reset()
        targets = []

        def look(graph, inputs):
            targets.extend(str(node.target) for node in graph.graph.nodes)
            return make_boxed_func(graph.forward)

        backend = aot_autograd(fw_compiler=look)
        double = torch.compile(lambda x: F.interpolate(x, scale_factor=2), backend=backend)
        double(torch.randn(1, 1, 4, 4))
        return targets

    before = traced()
    with eager_kernels():
        inside = traced()
    assert "aten.upsample_nearest2d.default" in inside or "aten.upsample_nearest2d.vec" in inside
    assert traced() == before != inside


LABELS = {"multilabel_margin_loss": [[0, 1, -1, 2], [3, -1, 0, 1], [-1, 0, 0, 0], [0, 1, 2, 3]],
          "multi_margin_loss": [0, 3, 1, 1]}


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("name", LABELS)
@pytest.mark.usefixtures("own_cache", "one_thread")
def test_margin_losses_of_classes_have_the_bits_of_eager_pytorch(name, reduction):
    class Margin(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, labels):
            return getattr(F, name)(self.layer(x), labels, reduction=reduction)

    torch.manual_seed(0)
    model, x = Margin().to(DEVICE), torch.randn(4, 4, device=DEVICE)
    plain, labels = copy.deepcopy(model), torch.tensor(LABELS[name], device=DEVICE)
    planned = lowtide.wrap(model, (x, labels), time_limit=0.3)
    results = [run(x, labels) for run in (planned, plain)]
    for result in results:
        result.sum().backward()
    assert torch.equal(*results)
    assert torch.equal(model.layer.weight.grad, plain.layer.weight.grad)
