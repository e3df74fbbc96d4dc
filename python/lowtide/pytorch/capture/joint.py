"""The walk from a joint graph to a lowtide graph."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence

import torch

from ... import Graph
from ..common.fused_update import FusedUpdate
from ..joint_graph.phases import split
from ..joint_graph.primals import placeholders
from . import batch_norm
from .boundary import add_boundary, hold_results_outside, refuse_stale_reads
from .calls import add_call
from .captured import Captured, Output
from .clipped_updates import add_clipped_updates
from .document import Document
from .in_place import choose_pairs
from .residents import Constants, add_primals
from .step_device import step_device
from .updates import add_updates


def from_joint(
    joint: torch.fx.GraphModule,
    num_fwd_outputs: int,
    *,
    name: str,
    primal_roles: Sequence[str],
    primal_names: Sequence[str],
    updated: Sequence[int],
    fused_update: FusedUpdate | None = None,
) -> Captured:
    """The training step that AOTAutograd hands to a ``partition_fn``, as a lowtide graph.

    ``joint`` has placeholders ``primals_*`` and ``tangents_*`` with fake tensors in
    ``meta["val"]`` and returns the forward outputs, then one gradient (or None) per primal. Roles
    (``parameter``, ``buffer``, ``input``, ...) and names are by primal; ``updated`` are the indices
    of the primals that the module overwrites, as ``mutated_primals(joint)`` gives them. With
    ``fused_update``, parameters are updated by ops, and their gradients are not returned.

    Raises InputError, with the line of the user's code where it is known, for what the format or a
    plan cannot hold: effects, symbolic shapes, dtypes such as 8-bit floats.
    """
    updated = tuple(updated)
    document, constants = Document(), Constants(joint)
    results = list(joint.graph.output_node().args[0])
    updating_norms = batch_norm.updates_in_place(joint, updated)
    norm_types = batch_norm.recorded_types(joint, updating_norms)

    def write(nodes, phase):
        for node in nodes:
            _visit(document, constants, node, phase, norm_types.get(node), node in updating_norms)

    add_primals(document, joint, primal_roles, primal_names)
    forward, backward = split(joint, num_fwd_outputs)
    write(forward, "forward")
    boundary = add_boundary(document, joint, results[:num_fwd_outputs], updated)
    write(backward, "backward")

    primals = tuple(document.values[node].tensor for node in placeholders(joint, "primals"))
    gradients = tuple(map(document.output, results[num_fwd_outputs:]))
    _name_gradients(document, primals, gradients)
    refuse_stale_reads(document, boundary)
    hold_results_outside(document, boundary)
    if fused_update is not None:
        gradients = _updated_by(document, boundary.op, [
            primal if role == "parameter" else None
            for primal, role in zip(primals, primal_roles)], gradients, fused_update)
    return Captured(
        graph=_graph(document, name, (*boundary.forward_outputs, *gradients)),
        joint=joint,
        nodes=tuple(document.nodes),
        boundary=boundary.op,
        primals=primals,
        constants=constants.found,
        forward_outputs=boundary.forward_outputs,
        tangents=boundary.tangents,
        gradients=gradients,
        updated=updated,
        device=step_device(joint),
    )


def _updated_by(document: Document, boundary: int, parameters: Sequence[int | None],
                gradients: Sequence[Output], fused_update: FusedUpdate) -> tuple[Output, ...]:
    if fused_update.clips:
        return tuple(add_clipped_updates(document, boundary, parameters, gradients, fused_update))
    return tuple(add_updates(document, boundary, parameters, gradients))


def _visit(document: Document, constants: Constants, node: torch.fx.Node, phase: str,
           norm_type: str | None, updates_in_place: bool) -> None:
    if node.op == "get_attr":
        constants.add(document, node)
    elif node.target is operator.getitem:
        document.values[node] = document.values[node.args[0]][node.args[1]]
    elif _is_conjugate_of_number(node):
        document.values[node] = Output(literal=complex(node.args[0]).conjugate())
    else:
        add_call(document, node, phase, norm_type, updates_in_place)


def _is_conjugate_of_number(node: torch.fx.Node) -> bool:
    """As the derivative of ``x * 2j`` has it: a number in place of the tensor."""
    return (node.target is torch.ops.aten._conj.default
            and not isinstance(node.args[0], torch.fx.Node))


def _name_gradients(document: Document, primals: Sequence[int | None],
                    gradients: Sequence[Output]) -> None:
    """A tensor that is the gradient of two parameters is called that of the first."""
    for parameter, gradient in zip(primals, gradients):
        if parameter is None or gradient.tensor is None:
            continue
        record = document.records[gradient.tensor]
        if (document.records[parameter]["role"] == "parameter"
                and record["kind"] == "value" and "role" not in record):
            record["role"] = "gradient"
            record["gradient_of"] = parameter


def _graph(document: Document, name: str, returned: Sequence[Output]) -> Graph:
    kept = list(dict.fromkeys(result.tensor for result in returned if result.tensor is not None))
    choose_pairs(document.ops, document.records, kept)
    text = json.dumps({"format": "lowtide-graph", "version": 1, "name": name, "cost_unit": "us",
                       "tensors": document.records, "ops": document.ops, "outputs": kept})
    return Graph.parse(text, f"the graph of {name}")
