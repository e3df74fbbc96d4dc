"""What a plan keeps from the forward for the backward."""

from __future__ import annotations

from ... import Plan
from ..capture import Captured, storages_of


def held_over_boundary(captured: Captured, plan: Plan) -> set[int]:
    """The storages (tensor ids) that a plan keeps from the forward for the backward.

    Live when the boundary runs, and read behind it before being made again.
    """
    storages = storages_of(captured.graph)
    actions = plan.actions
    cut = actions.index(("run", captured.boundary))
    live = _live_after(captured.graph, storages, actions[:cut])
    ops, held, made = captured.graph.ops, set(), set()
    for kind, index, *_ in actions[cut + 1:]:
        if kind == "run":
            held |= {storages[i] for i in ops[index].inputs} & live - made
            made |= {storages[i] for i in ops[index].outputs}
    return held


def _live_after(graph, storages, actions):
    ops, live = graph.ops, set()
    for kind, index, *in_place in actions:
        if kind != "run":
            live.discard(storages[index])
            continue
        op = ops[index]
        for output, source in op.inplace:
            if in_place and output in in_place[0]:
                live.discard(storages[op.inputs[source]])
        live |= {storages[i] for i in op.outputs}
    return {i for i in live if graph.tensors[i].kind == "value"}
