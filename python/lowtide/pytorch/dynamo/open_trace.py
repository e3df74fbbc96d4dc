"""One joint graph for all sizes of a range, traced with sizes that are open."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta

from ..budget.settings import Settings
from ..capture import describe_inputs, describe_primals, eager_kernels
from ..joint_graph.primals import placeholders
from ..joint_graph.shared_casts import casts_are_shared, share_casts
from ..sizes.open_sizes import Sizes
from ..sizes.specialize import specialized
from ..slices import SliceOrder, order_of_slices
from .forward_backward_graphs import backward_graph, forward_graph
from .joint_trace import (
    JointTrace,
    captured_trace,
    fake_ticket,
    parameters_of,
    tracing_context,
)


@dataclasses.dataclass(frozen=True, eq=False)
class OpenTrace:
    """AOTAutograd's joint graph of a graph whose sizes are symbols, as of ``JointTrace``."""

    joint: fx.GraphModule
    num_fwd_outputs: int
    metadata: ViewAndMutationMeta
    described: list[tuple[str, str]]
    trained: list[torch.Tensor]

    def order_of_slices(self, sizes: Sizes) -> SliceOrder | None:
        """That which these sizes decide."""
        joint = specialized(self.joint, sizes)
        roles, _ = describe_primals(joint, self.described)
        return order_of_slices(joint, self.num_fwd_outputs, roles)

    def at(self, sizes: Sizes, name: str, slices: int, settings: Settings,
           order: SliceOrder | None = None) -> JointTrace:
        """What a trace at these sizes gives, with slices in this order, if one is given. It takes
        no trace, which takes ten times longer. Raises InputError for what cannot be captured."""
        found = captured_trace(specialized(self.joint, sizes), self.num_fwd_outputs, self.described,
                               self.trained, name, slices, settings, order)
        found.metadata = self.metadata
        return found


class _TracedOpen(Exception):
    """Ends a trace as soon as all is known: nothing is compiled for open sizes."""


def trace_open(graph: fx.GraphModule, inputs: Sequence) -> OpenTrace | None:
    """The joint graph of ``graph``, whose ``inputs`` are fake tensors with symbols for sizes, and
    these symbols; None where nothing needs a gradient. Relations of sizes that the graph stands on
    are guards of their ``ShapeEnv`` from then on, which Dynamo checks at each call."""
    described = describe_inputs(graph, inputs)
    casts_once = casts_are_shared(graph)
    found: tuple[fx.GraphModule, int] | None = None
    metadata: ViewAndMutationMeta | None = None

    def partition(joint, joint_inputs, *, num_fwd_outputs, **_):
        nonlocal found
        if casts_once:
            share_casts(joint, num_fwd_outputs, describe_primals(joint, described)[0])
        found = joint, num_fwd_outputs
        return _halves(joint, num_fwd_outputs)

    def forward(module, _):
        nonlocal metadata
        metadata = torch._guards.TracingContext.get().fw_metadata
        raise _TracedOpen

    def unused(module, _):
        return make_boxed_func(module.forward)

    backend = aot_autograd(fw_compiler=forward, bw_compiler=unused, partition_fn=partition,
                           inference_compiler=unused)
    try:
        with eager_kernels(), tracing_context():
            backend(graph, inputs)
    except _TracedOpen:
        pass
    if found is None or metadata is None:
        return None
    return OpenTrace(*found, metadata, described, parameters_of(inputs, described))


def _halves(joint: fx.GraphModule,
            num_fwd_outputs: int) -> tuple[fx.GraphModule, fx.GraphModule]:
    """What AOTAutograd needs of both to go on; they are never run."""
    primals = placeholders(joint, "primals")
    results = list(joint.graph.output_node().args[0])
    ticket = fake_ticket(primals, "cpu")
    return (forward_graph(_never, primals, results[:num_fwd_outputs], [], ticket),
            backward_graph(_never, [], ticket, placeholders(joint, "tangents"),
                           results[num_fwd_outputs:]))


def _never(*_):
    raise AssertionError("a half of an open graph was run")
