"""Captures AOTAutograd's joint graph of a graph that Dynamo traced."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import ViewAndMutationMeta
from torch.utils._python_dispatch import _disable_current_modes

from ... import _runtime
from ..budget.settings import Settings
from ..capture import (
    Captured,
    batch_norm,
    describe_inputs,
    describe_primals,
    eager_kernels,
    from_joint,
)
from ..capture.saved_tensors import SavedTensors, tensors_to_save
from ..joint_graph.primals import mutated_primals, placeholders
from ..joint_graph.shared_casts import casts_are_shared, share_casts
from ..shards.rewrite import with_collectives
from ..slices import SliceOrder, in_slices
from ..stash import Stashes, stashed, stashes_of
from .forward_backward_graphs import backward_graph, forward_graph
from .quietly import quietly


@dataclasses.dataclass(eq=False)
class JointTrace:
    """One joint graph, captured; ``metadata`` is what AOTAutograd found out about it.

    ``trained``: the parameters among the inputs, without their elements. ``slices``: in how many
    it runs. ``stashes``: what may be held in fewer bits. ``function``: the wrapper
    of AOTAutograd around both halves, which call ``run_forward(primals) -> (outputs, ticket)`` and
    ``run_backward(ticket, saved, tangents) -> gradients``: to be set before ``function`` is called.
    ``again``: captures the same joint graph by other settings, for plans that are compared; where
    there is a layout on ranks.
    """

    joint: fx.GraphModule
    captured: Captured
    saved: SavedTensors
    trained: list[torch.Tensor]
    slices: int
    stashes: Stashes[Captured]
    again: Callable[[Settings], JointTrace] | None = None
    metadata: ViewAndMutationMeta | None = None
    function: Callable | None = None
    run_forward: Callable | None = None
    run_backward: Callable | None = None


@quietly()
def trace_joint(graph: fx.GraphModule, inputs: Sequence, name: str,
                evaluate: Callable[[Callable, Sequence], object], slices: int,
                settings: Settings) -> JointTrace | Callable:
    """The joint graph of ``graph`` for these inputs, in so many slices, with updates and what may
    be stashed as in the settings; or, where nothing needs a gradient, a callable that runs it: by
    ``evaluate(run, arguments)``.

    Raises InputError for what cannot be captured, with the line of the user's code.
    """
    found: JointTrace | None = None
    # AOTAutograd may keep these functions as long as what it compiled, so they hold no inputs.
    described = describe_inputs(graph, inputs)
    trained = parameters_of(inputs, described)
    casts_once = casts_are_shared(graph)

    def partition(joint, joint_inputs, *, num_fwd_outputs, **_):
        nonlocal found
        if casts_once:
            share_casts(joint, num_fwd_outputs, describe_primals(joint, described)[0])
        capture = functools.partial(captured_trace, joint, num_fwd_outputs, described, trained,
                                    name, slices)
        found = capture(settings)
        if settings.layout is not None:
            found.again = functools.partial(_as_in_trace, capture)
        return _halves(found, num_fwd_outputs)

    def forward(module, _):
        found.metadata = torch._guards.TracingContext.get().fw_metadata
        return make_boxed_func(module.forward)

    def backward(module, _):
        return make_boxed_func(module.forward)

    def without_gradients(module, _):
        graph = batch_norm.as_in_eager(module)
        return make_boxed_func(lambda *arguments: evaluate(graph, arguments))

    backend = aot_autograd(fw_compiler=forward, bw_compiler=backward, partition_fn=partition,
                           inference_compiler=without_gradients)
    with eager_kernels(), tracing_context():
        function = backend(graph, inputs)
    if found is None:
        return function
    # AOTAutograd takes the ticket for a buffer that the backward pass may overwrite, and would
    # refuse retain_graph=True after a backward pass without it.
    found.metadata.bw_donated_idxs = []
    found.function = function
    return found


def _as_in_trace(capture: Callable[[Settings], JointTrace], settings: Settings) -> JointTrace:
    with eager_kernels(), tracing_context():
        return capture(settings)


def tracing_context():
    """Dynamo's, in which AOTAutograd leaves what it found; one of our own where Dynamo is done."""
    if torch._guards.TracingContext.try_get() is not None:
        return contextlib.nullcontext()
    return torch._guards.tracing(torch._guards.TracingContext(None))


def parameters_of(inputs: Sequence, described: Sequence[tuple[str, str]]) -> list[torch.Tensor]:
    """Those among the inputs of a graph, without their elements."""
    return [_without_elements(value) for value, (role, _) in zip(inputs, described)
            if role == "parameter"]


def captured_trace(joint: fx.GraphModule, num_fwd_outputs: int, described: list[tuple[str, str]],
                   trained: list[torch.Tensor], name: str, slices: int, settings: Settings,
                   order: SliceOrder | None = None) -> JointTrace:
    """A joint graph with sizes that are known, captured as ``trace_joint`` has it. ``described``:
    role and name of each input of the graph that it was traced from. ``order``: of slices, if
    another size decides it."""
    roles, names = describe_primals(joint, described)
    joint, slices = in_slices(joint, num_fwd_outputs, roles, slices, order)
    if settings.layout is not None:
        joint = with_collectives(joint, num_fwd_outputs, roles, names, settings.layout)

    def capture(step: fx.GraphModule) -> Captured:
        return from_joint(step, num_fwd_outputs, name=name, primal_roles=roles, primal_names=names,
                          updated=mutated_primals(step), fused_update=settings.fused_update)

    captured = capture(joint)
    possible = () if settings.stash is None else stashes_of(joint, num_fwd_outputs, settings.stash)
    stashes = Stashes(possible, lambda chosen: capture(stashed(joint, chosen)))
    return JointTrace(joint, captured, tensors_to_save(captured), trained, slices, stashes)


def _without_elements(parameter: torch.Tensor) -> torch.Tensor:
    """A trace is not to keep a model alive."""
    with _disable_current_modes():
        found = torch.empty(parameter.shape, dtype=parameter.dtype, device="meta")
        return found.requires_grad_(parameter.requires_grad)


def _halves(trace: JointTrace, num_fwd_outputs: int) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The two halves of the joint graph, each a call of what the trace is run by."""
    primals = placeholders(trace.joint, "primals")
    results = list(trace.joint.graph.output_node().args[0])
    returned, derived = results[:num_fwd_outputs], results[num_fwd_outputs:]
    saved = [*(primals[position] for position in trace.saved.primals),
             *(returned[position] for position in trace.saved.results)]
    ticket = fake_ticket(primals, trace.captured.device)
    return (
        forward_graph(_run_forward(trace), primals, returned, saved, ticket),
        backward_graph(_run_backward(trace, len(saved)), saved, ticket,
                      placeholders(trace.joint, "tangents"), derived),
    )


def _run_forward(trace: JointTrace) -> Callable:
    def run_forward(*primals):
        outputs, ticket = trace.run_forward(primals)
        return (*outputs, ticket)
    return run_forward


def _run_backward(trace: JointTrace, num_saved: int) -> Callable:
    @torch._dynamo.disable  # compiled autograd would trace into it
    def run_backward(ticket, *given):
        return trace.run_backward(ticket, given[:num_saved], given[num_saved:])
    return run_backward


def fake_ticket(primals: Sequence[fx.Node], device: str) -> torch.Tensor:
    mode = torch._guards.detect_fake_mode([node.meta.get("val") for node in primals])
    with mode:
        return torch.zeros(_runtime.Executor.ticket_size(device), dtype=torch.int64)
