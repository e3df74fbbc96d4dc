"""Splits a joint graph into forward and backward by the executions of a plan.

AOTAutograd's partitioners return two graphs: the forward returns its outputs and then the values
that it saves, the backward takes the saved values and the tangents. Here both follow a plan: each
holds the executions on its side of the boundary, in their order, and what runs again is written out
again under a name of its own (``relu_again_1``). Nothing between here and the compiled code merges
equal nodes: common subexpressions are removed from the joint graph alone, before it is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import fx
from torch._functorch._aot_autograd.descriptors import (
    SavedForBackwardsAOTOutput,
    SavedForBackwardsNoVcCheckAOTOutput,
)

from .... import InputError
from ...joint_graph.primals import placeholders
from ...joint_graph.views import is_view
from ..predict.nodes import is_random, results, source
from .subgraph import Subgraph


def split(
    joint: fx.GraphModule, executions: Sequence[fx.Node | None], num_fwd_outputs: int
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward graph of a plan's executions; None is the boundary between them.

    ``executions`` are call_function nodes of ``joint``, the boundary once. ``operator.getitem``
    nodes run with the op whose outputs they take. The joint graph returns ``num_fwd_outputs``
    values of the forward and then the gradients.

    Saved is what the backward reads before it makes it itself. Of a view its base is saved and the
    view made again, which costs nothing and never holds more, since a view keeps its base alive. A
    random op runs once: its results are values like others, kept or passed on. Inductor's own
    random ops are functions of a seed, so that they may run again; only the seeds may not. What
    reads a buffer that the module updates may not either: PyTorch raises when the backward finds it
    newer.

    Raises InputError when an execution reads what no earlier one made, when a random op runs twice,
    or when there is not exactly one boundary.
    """
    first, second = _sides(executions)
    _refuse_random_twice(executions)
    outputs = _Outputs.of(joint, num_fwd_outputs)
    primals, tangents = _placeholders(joint)
    saved, steps = _backward_steps(second, tangents, outputs.backward)

    backward = Subgraph("is_backward")
    backward.inputs(saved + tangents)
    backward.passed(first)
    backward.run(steps)
    backward.finish(outputs.backward, outputs.backward_descriptions)
    saved = [node for node in saved if backward.drop_if_unused(node)]

    forward = Subgraph("is_forward")
    forward.inputs(primals)
    forward.run(first)
    forward.finish(outputs.forward + saved,
                   outputs.forward_descriptions + _saved_descriptions(saved))
    return (fx.GraphModule(joint, forward.graph), fx.GraphModule(joint, backward.graph))


def _sides(executions):
    boundaries = [i for i, node in enumerate(executions) if node is None]
    if len(boundaries) != 1:
        raise InputError(f"the executions have {len(boundaries)} boundaries between forward and "
                         "backward; a training step has one")
    return list(executions[:boundaries[0]]), list(executions[boundaries[0] + 1:])


def _refuse_random_twice(executions):
    seen = set()
    for node in executions:
        if node is not None and node in seen and is_random(node):
            raise InputError(f"the plan runs the random op {node.name} ({node.target}) twice, "
                             "which would draw other numbers; plan with its op not recomputable")
        seen.add(node)


def _placeholders(joint):
    """The joint graph's inputs: what the forward takes, and the tangents."""
    tangents = placeholders(joint, "tangents")
    nodes = joint.graph.find_nodes(op="placeholder")
    return [node for node in nodes if node not in set(tangents)], tangents


@dataclass(frozen=True)
class _Outputs:
    """What the joint graph returns, forward and backward, with AOTAutograd's descriptions."""

    forward: list
    backward: list
    forward_descriptions: list
    backward_descriptions: list

    @staticmethod
    def of(joint: fx.GraphModule, num_fwd_outputs: int) -> _Outputs:
        (output,) = joint.graph.find_nodes(op="output")
        values = list(output.args[0])
        descriptions = list(output.meta.get("desc", [None] * len(values)))
        cut = num_fwd_outputs
        return _Outputs(values[:cut], values[cut:], descriptions[:cut], descriptions[cut:])


def _backward_steps(second, tangents, outputs):
    """What the backward takes from the forward, and what it runs, in order.

    Beside the executions these are the views that it makes again of what it takes.
    """
    made = set(tangents)
    saved, steps = [], []

    def need(node):
        if node in made or node.op == "get_attr":
            return
        if is_view(node):
            made_by = source(node)
            for read in made_by.all_input_nodes:
                need(read)
            execute(made_by)
        else:
            saved.append(node)
            made.add(node)

    def execute(node):
        steps.append(node)
        made.update(results(node))

    for node in second:
        for read in node.all_input_nodes:
            need(read)
        execute(node)
    for node in _nodes(outputs):
        need(node)
    # AOTAutograd wants those whose versions it need not check behind the others.
    saved.sort(key=lambda node: node.meta.get("saved_tensor_with_no_vc_check", False))
    return saved, steps


def _nodes(values: Iterable) -> list[fx.Node]:
    return [value for value in values if isinstance(value, fx.Node)]


def _saved_descriptions(saved):
    return [SavedForBackwardsNoVcCheckAOTOutput(i)
            if node.meta.get("saved_tensor_with_no_vc_check", False)
            else SavedForBackwardsAOTOutput(i) for i, node in enumerate(saved)]
