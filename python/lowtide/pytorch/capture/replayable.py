"""Whether the forward pass of a captured graph may be replayed for a second backward pass."""

from __future__ import annotations

from .calls import PURE_LIBRARIES
from .captured import Captured
from .storages import storages_of


def why_not_replayable(captured: Captured) -> str | None:
    """None where a second run of the forward half, from the primals that autograd saved and the
    state of the generator, computes again what the backward half reads; else why it may not, as
    half a sentence.
    """
    graph, storages = captured.graph, storages_of(captured.graph)
    overwritten = {captured.primals[position] for position in captured.updated} - {None}
    for number in sorted(_needed_after_boundary(captured)):
        op = graph.ops[number]
        if op.type.split("::")[0] not in PURE_LIBRARIES:
            return f"{op.type} may compute something else when it runs again"
        for position, index in enumerate(op.inputs):
            if storages[index] in overwritten and position not in op.mutates:
                name = graph.tensors[storages[index]].name
                return f"it reads {name}, which the module overwrites"
    return None


def _needed_after_boundary(captured: Captured) -> set[int]:
    """The ops before the boundary that those after it need, directly or not."""
    ops = captured.graph.ops
    maker = {index: number for number, op in enumerate(ops[:captured.boundary])
             for index in op.outputs}
    todo = [index for op in ops[captured.boundary + 1:] for index in op.inputs]
    found: set[int] = set()
    while todo:
        number = maker.get(todo.pop())
        if number is not None and number not in found:
            found.add(number)
            todo += ops[number].inputs
    return found
