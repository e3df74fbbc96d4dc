"""Tracing with the kernels that eager PyTorch runs."""

import torch
import torch.nn.functional as F
from lowtide.pytorch.capture import eager_kernels
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
