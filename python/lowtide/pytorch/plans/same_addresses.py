"""A plan of the same ops at a larger size, for a smaller one, byte for byte."""

from __future__ import annotations

import json

from ... import Error, Graph, Plan, replay, verify


def at_same_addresses(graph: Graph, plan: Plan, budget_bytes: int) -> Plan | None:
    """``plan`` as it is, for a ``graph`` in which no value takes more bytes than in its own: each
    lies where it lay, in what was its room. None where it is none of ``graph``, or needs more than
    the budget, residents included."""
    try:
        known = replay(graph, plan)
    except Error:  # an output of it was written over a value, which has another size now
        return None
    document = json.loads(plan.format())
    document |= {"graph": graph.name, "budget_bytes": budget_bytes, "cost": known.cost,
                 "peak_bytes": known.peak_bytes, "lower_bound": None}
    document["offsets"] = [[action, kept] for action, placed in document["offsets"]
                           if (kept := [place for place in placed if _bytes(graph, place)])]
    document["arena_bytes"] = graph.resident_bytes + max(
        (place[2] + _bytes(graph, place) for _, placed in document["offsets"] for place in placed),
        default=0)
    try:
        found = Plan.parse(json.dumps(document), "the plan of a larger size")
    except Error:
        return None
    return None if verify(graph, found, budget_bytes) else found


def _bytes(graph: Graph, place: list) -> int:
    kind, index, _ = place
    return graph.ops[index].workspace_bytes if kind == "w" else graph.tensors[index].bytes
