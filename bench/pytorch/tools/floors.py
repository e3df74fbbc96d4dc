"""What plans of a graph hold at certain ops, in bytes beside the residents."""


def floor_with_gradients(graph):
    """The most that one op reads, makes and works in, with the gradients that were made before it
    and stay until the end. An output that may be written over an input takes nothing."""
    tensors = graph.tensors
    gradients = _storages(tensors, [i for i in graph.outputs if tensors[i].role == "gradient"])
    made, most = set(), 0
    for op in graph.ops:
        read, written = _storages(tensors, op.inputs), _storages(tensors, op.outputs)
        alone = _bytes(tensors, read | written) + op.workspace_bytes - _over_inputs(tensors, op)
        most = max(most, alone + _bytes(tensors, made - read - written))
        made |= written & gradients
    return most


def kept_between_passes(graph):
    """What the forward pass makes and the backward pass reads, if nothing runs again."""
    tensors = graph.tensors
    made = _storages(tensors, [i for op in graph.ops if op.phase == "forward" for i in op.outputs])
    read = _storages(tensors, [i for op in graph.ops if op.phase != "forward" for i in op.inputs])
    return _bytes(tensors, made & read)


def _storages(tensors, indices):
    """Those that a step makes."""
    storages = {tensors[i].alias_of if tensors[i].alias_of is not None else i for i in indices}
    return {i for i in storages if tensors[i].kind != "resident"}


def _bytes(tensors, indices):
    return sum(tensors[i].bytes for i in indices)


def _over_inputs(tensors, op):
    """Each input is written over once, by an output of its own size."""
    free, total = _storages(tensors, op.inputs), 0
    for output, source in op.inplace:
        for storage in free & _storages(tensors, [op.inputs[source]]):
            if tensors[storage].bytes == tensors[op.outputs[output]].bytes:
                total += tensors[storage].bytes
                free.discard(storage)
                break
    return total
