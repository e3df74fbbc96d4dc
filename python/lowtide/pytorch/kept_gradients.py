"""Gradients that the caller keeps from one step to the next."""

from __future__ import annotations

import tempfile
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

    def bytes(self) -> int:
        """What all gradients take."""
        return sum(leaf.grad.nbytes for leaf in self._with_gradients())

    def move_out(self, in_a_block: Callable[[torch.Tensor], bool]) -> None:
        """Gives each gradient that lies in a block memory of its own."""
        for leaf in self._with_gradients():
            if in_a_block(leaf.grad):
                leaf.grad = leaf.grad.clone()

    def move_out_by_file(self, in_a_block: Callable[[torch.Tensor], bool],
                         release: Callable[[], None]) -> None:
        """The same where there is no memory for both: ``release`` gives the blocks back while the
        gradients are in a file. Raises OSError or RuntimeError when it cannot be written; then
        nothing is moved."""
        leaves = [leaf for leaf in self._with_gradients() if in_a_block(leaf.grad)]
        with tempfile.TemporaryFile() as file:
            torch.save([leaf.grad for leaf in leaves], file)
            for leaf in leaves:
                leaf.grad = None
            release()
            file.seek(0)
            for leaf, gradient in zip(leaves, torch.load(file)):
                leaf.grad = gradient

    def _with_gradients(self) -> list[torch.Tensor]:
        return [leaf for leaf in self._leaves() if leaf.is_leaf and leaf.grad is not None]

    def _leaves(self) -> Iterator[torch.Tensor]:
        yield from self._parameters
        for reference in list(self._met.values()):
            tensor = reference()
            if tensor is not None:
                yield tensor
