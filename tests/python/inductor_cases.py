"""Models in Inductor's mode whose graphs are split and lowered, and run op by op: no code is
made of them."""

import contextlib
import functools
from unittest import mock

import torch
from functorch.compile import nop
from lowtide.pytorch.capture import describe_inputs
from lowtide.pytorch.dynamo.trace import traced
from lowtide.pytorch.inductor import Fitted, PlannedPartition
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table


class Layer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(width, width), torch.nn.LayerNorm(width)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x))) + x


class Stack(torch.nn.Module):
    """Layers by name, a buffer, and a sum."""

    def __init__(self, names=("a", "b"), width=32):
        super().__init__()
        self.register_buffer("scale", torch.ones(width))
        for name in names:
            self.add_module(name, Layer(width))

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return (x * self.scale).square().sum()


@contextlib.contextmanager
def without_code(*, smaller_splits=True, plans=True):
    """Candidates beside PyTorch's own split: its splits with smaller budgets, plans of Lowtide."""
    fitted = functools.partial(_fitted, only_pytorch=not plans)
    patches = [mock.patch("lowtide.pytorch.inductor.mode.compile_within", fitted),
               mock.patch("lowtide.pytorch.inductor.mode.traced", _evaluated)]
    if not smaller_splits:
        patches.append(mock.patch(
            "lowtide.pytorch.inductor.select.torch_candidates.smaller_splits", lambda *_: ()))
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def _evaluated(run, backend, **settings):
    assert backend == "inductor"
    return traced(run, "aot_eager", **settings)


def _fitted(run, budget, measure, **settings):
    """As ``compile_within``, in one round."""
    partition = PlannedPartition(budget, **settings)
    compiler = aot_autograd(fw_compiler=nop, bw_compiler=nop, partition_fn=partition,
                            decompositions=select_decomp_table())

    def backend(graph, inputs):
        partition.described = describe_inputs(graph, inputs)
        return compiler(graph, inputs)

    compiled = traced(lambda *given, **named: run(*given, **named), backend, fullgraph=True,
                      fixed_shapes=True)
    measured = measure(compiled)
    return Fitted(compiled, measured, partition.found, 1, partition.joint)
