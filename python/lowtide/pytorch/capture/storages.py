"""Which tensors of a graph lie in the same memory."""

from __future__ import annotations

from ... import Graph


def storages_of(graph: Graph) -> list[int]:
    """By tensor: the tensor whose storage it uses."""
    return [index if tensor.alias_of is None else tensor.alias_of
            for index, tensor in enumerate(graph.tensors)]
