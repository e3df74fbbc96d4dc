"""Where a pass is narrow: what is alive there is little beside what is alive around."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

#: Between two narrow places more than so many times their bytes is alive.
_WIDER = 2


def segment_ends(nodes: Sequence[fx.Node]) -> list[int]:
    """The positions at which the nodes of a pass, in their order, are cut: where it is narrow.

    A pass in slices that ends a segment before it begins the next one has the gradients of the
    segment's parameters complete, and holds the narrow places of all slices.
    """
    return _narrow_places(_alive_behind(nodes))


def segments(nodes: Sequence[fx.Node], ends: Sequence[int]) -> list[Sequence[fx.Node]]:
    """The nodes of a pass, cut at these positions."""
    return [nodes[begin:end] for begin, end in zip([0, *ends], [*ends, len(nodes)])]


def _alive_behind(nodes: Sequence[fx.Node]) -> list[int]:
    """By node: the bytes that the pass has made by then and still reads."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    size: dict[int, int] = {}
    own = {node: index for index, node in enumerate(nodes)}
    for index, node in enumerate(nodes):
        for read in node.all_input_nodes:
            for storage in storages(read.meta.get("val")) if read in own else ():
                last[storage] = index
        for storage, count in storages(node.meta.get("val")).items():
            first.setdefault(storage, index)
            size[storage] = count
    change = [0] * (len(nodes) + 1)
    for storage, begin in first.items():
        change[begin] += size[storage]
        change[max(last.get(storage, begin), begin)] -= size[storage]
    alive, total = [], 0
    for delta in change[:-1]:
        total += delta
        alive.append(total)
    return alive


def storages(value: object) -> dict[int, int]:
    """By storage of what a node makes: its bytes."""
    if isinstance(value, (list, tuple)):
        return {key: size for part in value for key, size in storages(part).items()}
    if not isinstance(value, torch.Tensor):
        return {}
    storage = value.untyped_storage()
    return {storage._cdata: int(storage.nbytes())}


def _narrow_places(alive: Sequence[int]) -> list[int]:
    """The positions behind which a new segment begins: the narrowest between two wide ones."""
    places = []
    widest, narrowest = 0, None
    for index, size in enumerate(alive[:-1]):
        if narrowest is not None and size > _WIDER * alive[narrowest]:
            places.append(narrowest + 1)
            widest, narrowest = size, None
        widest = max(widest, size)
        if widest > _WIDER * size and (narrowest is None or size <= alive[narrowest]):
            narrowest = index
    return places
