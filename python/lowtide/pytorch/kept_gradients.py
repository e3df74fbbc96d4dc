"""Gradients that the caller keeps from one step to the next."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence

import torch


class KeptGradients:
    """Moves what ``.grad`` still holds out of the blocks where it was made.

    ``parameters``: those of the model, where it is known; else those that are met.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]):
        self._parameters = list(parameters)
        self._met: dict[int, weakref.ref] = {}  # by identity: tensors are not compared

    def meet(self, primals: Sequence, inputs: Sequence[int]) -> None:
        """Notes what a graph is run with and may get a gradient. ``inputs``: positions of those
        that are no parameters."""
        for position in inputs if self._parameters else range(len(primals)):
            tensor = primals[position]
            if not isinstance(tensor, torch.Tensor) or not tensor.requires_grad:
                continue
            if tensor.is_leaf and id(tensor) not in self._met:
                forget = lambda _, key=id(tensor): self._met.pop(key, None)  # noqa: E731
                self._met[id(tensor)] = weakref.ref(tensor, forget)

    def move_out(self, in_a_block: Callable[[torch.Tensor], bool]) -> int:
        """Gives each gradient that lies in a block memory of its own; bytes of all gradients."""
        kept_bytes = 0
        for leaf in self._leaves():
            if not leaf.is_leaf or leaf.grad is None:
                continue
            kept_bytes += leaf.grad.nbytes
            if in_a_block(leaf.grad):
                leaf.grad = leaf.grad.clone()
        return kept_bytes

    def _leaves(self) -> Iterator[torch.Tensor]:
        yield from self._parameters
        for reference in list(self._met.values()):
            tensor = reference()
            if tensor is not None:
                yield tensor
