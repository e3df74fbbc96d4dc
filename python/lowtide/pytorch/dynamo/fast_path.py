"""Whether a region may skip AOTAutograd's wrappers and run as one function of autograd."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx
from torch._functorch._aot_autograd.schemas import (
    InputAliasInfo,
    MutationType,
    PlainTensorMeta,
    ViewAndMutationMeta,
)

from ..joint_graph.primals import placeholders
from .joint_trace import JointTrace


def differentiable_results(graph: fx.GraphModule, inputs: Sequence,
                           trace: JointTrace) -> list[int] | None:
    """The positions of the forward outputs that require a gradient: one for each tangent.

    None where AOTAutograd's own wrappers do more than pass tensors on: for results that are views,
    inputs that are written and need gradients, inputs that are one another, tensor subclasses.
    They take longer than a small model does.
    """
    metadata = trace.metadata
    if not (_as_given(graph, inputs, trace.joint) and _plain(metadata)
            and _all_distinct(trace.captured.forward_outputs)):
        return None
    written = len(metadata.mutated_inp_runtime_indices)
    results = [position for position, output in enumerate(metadata.output_info, start=written)
               if output.requires_grad]
    return results if len(results) == len(placeholders(trace.joint, "tangents")) else None


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
        and not metadata.is_rng_op_functionalized and not metadata.num_graphsafe_rng_states)


def _written_plainly(info: InputAliasInfo) -> bool:
    """Whether an input is not written, or only its elements are and nothing is derived by it."""
    return (info.mutation_type is MutationType.NOT_MUTATED
            or info.mutation_type is MutationType.MUTATED_OUT_GRAPH
            and info.mutates_data and not info.mutates_metadata
            and not info.mutation_inductor_storage_resize and not info.requires_grad)


def _all_distinct(outputs: Sequence) -> bool:
    """Whether no tensor is returned twice."""
    tensors = [output.tensor for output in outputs if output.tensor is not None]
    return len(tensors) == len(set(tensors))
