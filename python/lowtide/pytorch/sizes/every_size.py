"""What a graph with open sizes takes at every size of its ranges."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

from .open_sizes import OpenSizes, Sizes


class EverySize:
    """The storages of a joint graph, in bytes, at each of the ``covered`` sizes.

    PyTorch's trace says the bytes of each as an expression of the sizes, which is worked out for
    every one of them: nothing is assumed of how it grows.
    """

    def __init__(self, joint: fx.GraphModule, sizes: OpenSizes, covered: Sequence[Sizes]):
        counts: dict[sympy.Expr, int] = {}
        for storage in _open_storages(joint):
            counts[storage] = counts.get(storage, 0) + 1
        functions = [(sizes.function(expression), count) for expression, count in counts.items()]
        self._covered = covered
        self._bytes = [[function(*each.values()) for function, _ in functions] for each in covered]
        self._totals = [sum(size * count for size, (_, count) in zip(row, functions))
                        for row in self._bytes]
        self._position_of_largest = self._position()

    @property
    def largest(self) -> Sizes:
        """Where all sizes are the largest; if the graph holds for none such, where all storages
        together take the most."""
        return self._covered[self._position_of_largest]

    def exceeding(self) -> list[Sizes]:
        """The sizes at which some storage takes more than at the largest."""
        most = self._bytes[self._position_of_largest]
        return [sizes for sizes, row in zip(self._covered, self._bytes)
                if any(size > limit for size, limit in zip(row, most))]

    def spread(self, count: int) -> list[Sizes]:
        """So many at most, from where all together take the least to the most, evenly by that."""
        low, high = min(self._totals), max(self._totals)
        wanted = [low + (high - low) * step / (count - 1) for step in range(count)]
        positions = [min(range(len(self._totals)), key=lambda at: abs(self._totals[at] - goal))
                     for goal in wanted]
        return [self._covered[position] for position in dict.fromkeys(positions)]

    def _position(self) -> int:
        most = [max(sizes) for sizes in zip(*(each.values() for each in self._covered))]
        return max(range(len(self._totals)),
                   key=lambda at: (list(self._covered[at].values()) == most, self._totals[at]))


def _open_storages(joint: fx.GraphModule) -> list[sympy.Expr]:
    """The bytes of each storage whose size is open."""
    found = {}
    for node in joint.graph.nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                storage = value.untyped_storage()
                size = storage.nbytes()
                if isinstance(size, torch.SymInt):
                    found[storage._cdata] = size.node.expr
    return list(found.values())
