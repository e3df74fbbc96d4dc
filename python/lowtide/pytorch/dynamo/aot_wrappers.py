"""Runs a region through AOTAutograd's wrappers, where results are views or inputs are written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch._dynamo import compiled_autograd
from torch._functorch._aot_autograd.schemas import (
    OutputAliasInfo,
    OutputType,
    ViewAndMutationMeta,
)

from ..autograd.session import Session
from .joint_trace import JointTrace
from .used_results import tangents_of_gradients, without_unused

#: Views that AOTAutograd makes of a result lie between it and the node of its function.
_MOST_VIEWS = 16


def behind_aot_wrappers(trace: JointTrace, session: Session) -> Callable:
    """The graph of a trace, planned in the session, as AOTAutograd wraps its halves.

    The wrappers give zeros for the tangents of results that the loss does not use. A hook before
    the backward pass notes which those are, so that gradients of theirs alone are None, as eager.
    Compiled autograd can't trace such a hook, and gets the zeros.
    """
    graph = session.add(trace)
    reached = tangents_of_gradients(trace.joint, len(trace.captured.forward_outputs))
    positions = _positions_of_tangents(trace.metadata)
    used: list[bool] = []

    def note_used(gradients: Sequence) -> None:
        used[:] = [gradients[position] is not None for position in positions]

    def run_backward(ticket, saved: Sequence, tangents: Sequence) -> list:
        found = session.backward(graph, ticket, saved, tangents)
        return without_unused(found, reached, used) if len(used) == len(tangents) else found

    def run(*arguments):
        results = trace.function(*arguments)
        node = _node_of(results)
        if node is not None and not compiled_autograd.compiled_autograd_enabled:
            node.register_prehook(note_used)
        return results

    trace.run_forward = functools.partial(session.forward, graph)
    trace.run_backward = run_backward
    return run


def _positions_of_tangents(metadata: ViewAndMutationMeta) -> list[int]:
    """By tangent: its position among the gradients that autograd hands to the wrapper, those of
    written inputs, of results and of bases of views."""
    written = metadata.mutated_inp_runtime_indices
    inputs = [position for position, index in enumerate(written)
              if metadata.input_info[index].mutates_data
              and metadata.input_info[index].requires_grad]
    own = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
    results = [position for position, info in enumerate(metadata.output_info, start=len(written))
               if info.output_type in own and issubclass(info.raw_type, torch.Tensor)
               and _has_tangent(info)]
    first_base = len(written) + metadata.num_outputs
    return [*inputs, *results,
            *range(first_base, first_base + metadata.num_intermediate_bases)]


def _has_tangent(info: OutputAliasInfo) -> bool:
    """Before torch 2.13 it is enough that the result requires a gradient."""
    return getattr(info, "requires_grad_for_backward", info.requires_grad)


def _node_of(results: Sequence) -> torch.autograd.graph.Node | None:
    """The wrapper's node of the autograd graph that made these results."""
    for value in results:
        node = value.grad_fn if isinstance(value, torch.Tensor) else None
        for _ in range(_MOST_VIEWS):
            if node is None or node.name() == "CompiledFunctionBackward":
                break
            node = node.next_functions[0][0] if node.next_functions else None
        if node is not None and node.name() == "CompiledFunctionBackward":
            return node
    return None
