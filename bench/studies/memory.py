"""Bytes that a plan holds, under rules that a machine could have for reusing memory.

`counts(tensor)` says which values count. Residents and workspaces do not.
"""

from .graphs import storages


def bytes_of_values(graph, counts):
    """Of all values, each in memory of its own for the whole step."""
    return sum(_counted(graph, counts).values())


def bytes_written_in_place(graph, plan, counts):
    """Of the results of a plan that need no memory of their own, as they lie over a dying input."""
    bytes_ = _counted(graph, counts)
    return sum(bytes_.get(output, 0) for _, over in _runs(graph, plan) for output in over)


def peak_bytes(graph, plan, counts, in_place=True, freed=lambda tensor: True):
    """The most at one time. Without `in_place` each result has memory beside its input; a value
    for which `freed(its index)` is false keeps its memory until the end."""
    bytes_, outputs = _counted(graph, counts), [op.outputs for op in graph.ops]
    live, now, peak = set(), 0, 0

    def end(tensors):
        gone = {tensor for tensor in tensors if tensor in live and freed(tensor)}
        live.difference_update(gone)
        return sum(bytes_[tensor] for tensor in gone)

    for action, over in _runs(graph, plan):
        if action[0] == "free":
            now -= end([action[1]])
            continue
        now -= end(over.values()) if in_place else 0
        made = {output for output in outputs[action[1]] if output in bytes_} - live
        live |= made
        now += sum(bytes_[output] for output in made)
        peak = max(peak, now)
        now -= end(over.values())
    return peak


def _counted(graph, counts):
    """Bytes by index, of the values that count."""
    return {i: tensor.bytes for i, tensor in enumerate(graph.tensors)
            if tensor.kind == "value" and counts(tensor)}


def _runs(graph, plan):
    """Pairs of an action of the plan and {result: the input that it is written over}."""
    ops, owner = graph.ops, storages(graph)
    for action in plan.actions:
        over = {}
        if action[0] == "run" and len(action) > 2:
            op = ops[action[1]]
            inputs = dict(op.inplace)
            over = {op.outputs[i]: owner[op.inputs[inputs[i]]] for i in action[2]}
        yield action, over
