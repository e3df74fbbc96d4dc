"""Merges the two graphs of a split into one joint graph to plan, with its updates apart.

Planned is not the joint graph that AOTAutograd traced but what PyTorch's own partitioner makes of
it: the values that it saves and, in the backward, the cheap ops that it runs again because they
fuse with their readers. So a budget that limits nothing gives what Inductor alone would run, and
what a plan saves beyond that is compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx

from .... import InputError
from ...joint_graph.primals import placeholders
from ..predict.accumulated import with_accumulation
from ..predict.nodes import computed_again


@dataclass(frozen=True)
class MergedHalves:
    """A joint graph without effects, and the effects that its forward ends with.

    ``joint`` returns ``num_fwd_outputs`` values of the forward, the new values of ``updated`` last
    among them, and then the gradients. ``updated`` are targets of placeholders, in that order.
    ``again``: names of nodes of the backward that compute what one of the forward does.
    """

    joint: fx.GraphModule
    num_fwd_outputs: int
    updated: tuple[str, ...]
    again: frozenset[str] = frozenset()


def merge_halves(
    joint: fx.GraphModule,
    halves: tuple[fx.GraphModule, fx.GraphModule],
    num_fwd_outputs: int,
) -> MergedHalves:
    """The graph of both halves of ``joint``; a node that runs in both is there twice.

    The backward's first node is an alias of a tangent, so that nothing of the backward is taken for
    the forward. Raises InputError for effects other than updates of inputs, and where there is
    nothing to differentiate.
    """
    forward, backward = halves
    tangents, taken = _inputs_of_backward(backward)
    saved = forward.graph.output_node().args[0][num_fwd_outputs:]
    if len(saved) != len(taken):
        raise InputError("the backward has inputs that are neither tangents nor saved values, as "
                         "checkpointed random ops have on accelerators; leave the checkpointing "
                         "out, the plan takes its place")
    effects = updates(forward)
    graph, copies = fx.Graph(), {}
    for node in [*forward.graph.find_nodes(op="placeholder"), *tangents]:
        copies[node] = _copy(graph, node, copies)
    _copy_ops(graph, forward, "is_forward", copies, leave_out=effects)
    copies.update({node: copies[value] for node, value in zip(taken, saved, strict=True)})
    copies[tangents[0]] = _alias(graph, copies[tangents[0]])
    _copy_ops(graph, backward, "is_backward", copies)
    _return(graph, halves, num_fwd_outputs, effects, copies)
    return MergedHalves(with_accumulation(fx.GraphModule(joint, graph)),
                        num_fwd_outputs + len(effects),
                        tuple(effect.args[0].target for effect in effects),
                        frozenset(copies[node].name for node in computed_again(halves)))


def with_updates(forward: fx.GraphModule, planned: MergedHalves) -> fx.GraphModule:
    """A forward half of ``planned.joint`` with its updates done in place instead of returned."""
    graph = forward.graph
    (output,) = graph.find_nodes(op="output")
    end, begin = planned.num_fwd_outputs, planned.num_fwd_outputs - len(planned.updated)
    inputs = {node.target: node for node in graph.find_nodes(op="placeholder")}
    for target, value in zip(planned.updated, output.args[0][begin:end], strict=True):
        with graph.inserting_before(output):
            update = graph.call_function(torch.ops.aten.copy_.default, (inputs[target], value))
        update.meta = {**value.meta, "partitioner_tag": "must_be_in_forward"}
    for key in ("desc", "output_stack_traces"):
        del output.meta[key][begin:end]
    output.args = (output.args[0][:begin] + output.args[0][end:],)
    graph.lint()
    return forward


def _inputs_of_backward(backward):
    """The tangents, and the values that the forward saves for it."""
    inputs = backward.graph.find_nodes(op="placeholder")
    tangents = placeholders(backward, "tangents")
    if not tangents:
        raise InputError("nothing is differentiated, so that there is nothing to plan; compile a "
                         "module that has parameters with requires_grad")
    return tangents, [node for node in inputs if node not in set(tangents)]


def updates(forward: fx.GraphModule) -> list[fx.Node]:
    """The nodes of a forward half that write new values into its inputs.

    Raises InputError for other effects.
    """
    effects = [node for node in forward.graph.nodes
               if isinstance(node.target, torch._ops.OpOverload)
               and node.target._schema.is_mutable]
    for node in effects:
        if node.target is not torch.ops.aten.copy_.default or node.args[0].op != "placeholder":
            raise InputError(f"{node.name} ({node.target}) has an effect that cannot be planned\n"
                             f"{node.meta.get('stack_trace', '')}")
    return effects


def _copy_ops(graph, half, tag, copies, leave_out=()):
    for node in half.graph.nodes:
        if node.op in ("call_function", "get_attr") and node not in leave_out:
            copies[node] = _copy(graph, node, copies, partitioner_tag=tag)


def _copy(graph, node, copies, **meta):
    copy = graph.node_copy(node, copies.__getitem__)
    copy.meta = {**node.meta, **meta}
    return copy


def _alias(graph, tangent):
    alias = graph.call_function(torch.ops.aten.alias.default, (tangent,))
    alias.meta = {"val": tangent.meta["val"], "partitioner_tag": "is_backward"}
    return alias


def _return(graph, halves, num_fwd_outputs, effects, copies):
    """Ends the graph: outputs of the forward, new values of what is updated, gradients."""
    first, second = (half.graph.output_node() for half in halves)
    returned = [*first.args[0][:num_fwd_outputs], *(effect.args[1] for effect in effects),
                *second.args[0]]
    output = graph.output(tuple(copies[v] if isinstance(v, fx.Node) else v for v in returned))
    output.meta["desc"] = [*first.meta["desc"][:num_fwd_outputs], *(None for _ in effects),
                           *second.meta["desc"]]
    graph.lint()
