"""A region as one function of autograd, called straight behind Dynamo's guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import fx
from torch._functorch._aot_autograd.schemas import (
    InputAliasInfo,
    MutationType,
    PlainTensorMeta,
    ViewAndMutationMeta,
)

from .. import _runtime
from .capture.primals import placeholders
from .region import Region
from .session import Session


def direct(graph: fx.GraphModule, inputs: Sequence, joint: fx.GraphModule, session: Session,
           region: Region, metadata: ViewAndMutationMeta) -> Callable | None:
    """What computes a graph of Dynamo by the region that was captured of its joint graph.

    None where AOTAutograd's own wrappers do more than pass tensors on: for results that are views,
    inputs that are written and need gradients, inputs that are one another, tensor subclasses.
    They take longer than a small model does.
    """
    if not (_as_given(graph, inputs, joint) and _plain(metadata)
            and _all_apart(region.captured.forward_outputs)):
        return None
    captured, saved = region.captured, region.saved
    tangents = [node.meta["val"].stride() for node in placeholders(joint, "tangents")]
    written = metadata.mutated_inp_runtime_indices
    with_gradient = [position for position, output
                     in enumerate(metadata.output_info, start=len(written))
                     if output.requires_grad]
    if len(with_gradient) != len(tangents):
        return None
    return _runtime.Differentiable(
        forward=lambda primals: session.forward(region, primals),
        backward=lambda *given: session.backward(region, *given),
        saved_primals=saved.primals, saved_results=saved.results,
        written=written,
        with_gradients=[position for position, output in enumerate(captured.gradients)
                        if output.tensor is not None],
        derived=list(zip(with_gradient, tangents)))


def _as_given(graph: fx.GraphModule, inputs: Sequence, joint: fx.GraphModule) -> bool:
    """Whether the primals of the joint graph are the inputs of the other, one for one."""
    own = (*graph.parameters(), *graph.buffers())
    return not own and len(placeholders(joint, "primals")) == len(inputs)


def _plain(metadata: ViewAndMutationMeta) -> bool:
    return (
        metadata.num_outputs_aliased == 0 and metadata.num_intermediate_bases == 0
        and all(_written_plainly(info) for info in metadata.input_info)
        and all(type(meta) is PlainTensorMeta
                for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta))
        and not metadata.tokens and metadata.grad_enabled_mutation is None
        and not metadata.is_rng_op_functionalized and not metadata.num_graphsafe_rng_states
        and not metadata.dynamic_outputs)


def _written_plainly(info: InputAliasInfo) -> bool:
    """Whether an input is not written, or only its elements are and nothing is derived by it."""
    return (info.mutation_type is MutationType.NOT_MUTATED
            or info.mutation_type is MutationType.MUTATED_OUT_GRAPH
            and info.mutates_data and not info.mutates_metadata
            and not info.mutation_inductor_storage_resize and not info.requires_grad)


def _all_apart(outputs: Sequence) -> bool:
    """Whether no tensor is returned twice."""
    tensors = [output.tensor for output in outputs if output.tensor is not None]
    return len(tensors) == len(set(tensors))
