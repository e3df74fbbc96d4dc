"""Gradients that the caller keeps from one step to the next."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable

import torch

from ..common.local_tensor import local_part
from ..common.spent_gradient import SpentGradient


class KeptGradients:
    """Moves what ``.grad`` still holds out of the blocks where it was made.

    ``parameters``: those of the model, where it is known. What graphs are run with joins them:
    inputs that need gradients, parameters that took the place of others.
    """

    def __init__(self, parameters: Iterable[torch.Tensor]):
        self._tracked: dict[int, weakref.ref] = {}  # by identity: tensors are not compared
        self.track(parameters)

    def track(self, tensors: Iterable) -> None:
        """Notes what may get a gradient."""
        for tensor in tensors:
            if id(tensor) in self._tracked or not isinstance(tensor, torch.Tensor):
                continue
            if tensor.requires_grad and tensor.is_leaf:
                self._tracked[id(tensor)] = weakref.ref(tensor, self._forget(id(tensor)))

    def bytes(self) -> int:
        """What all gradients take."""
        return sum(local_part(leaf.grad).nbytes for leaf in self._with_gradients())

    def tracks(self, leaf: int) -> bool:
        """Whether the tensor with this identity may get a gradient."""
        return leaf in self._tracked

    def bytes_of_those(self, is_meant: Callable[[torch.Tensor], bool]) -> dict[int, int]:
        """What some of the gradients take, by the identities of their tensors."""
        leaves = ((leaf, leaf.grad) for leaf in self._with_gradients())
        # Another thread may drop some meanwhile.
        return {id(leaf): gradient.nbytes for leaf, whole in leaves
                if isinstance(whole, torch.Tensor) and is_meant(gradient := local_part(whole))}

    def move_out(self, in_a_block: Callable[[torch.Tensor], bool]) -> None:
        """Gives each gradient that lies in a block memory of its own."""
        for leaf in self._with_gradients():
            if in_a_block(local_part(leaf.grad)):
                leaf.grad = leaf.grad.clone()

    def move_out_by_file(self, in_a_block: Callable[[torch.Tensor], bool],
                         release: Callable[[], None]) -> None:
        """The same where there is no memory for both: ``release`` gives the blocks back while the
        gradients are in a file. Raises OSError or RuntimeError when it cannot be written; then
        nothing is moved."""
        leaves = [leaf for leaf in self._with_gradients() if in_a_block(local_part(leaf.grad))]
        with tempfile.TemporaryFile() as file:
            torch.save([leaf.grad for leaf in leaves], file)
            for leaf in leaves:
                leaf.grad = None
            release()
            file.seek(0)
            for leaf, gradient in zip(leaves, torch.load(file)):
                leaf.grad = gradient

    def _forget(self, key: int) -> Callable[[weakref.ref], object]:
        return lambda _: self._tracked.pop(key, None)

    def _with_gradients(self) -> list[torch.Tensor]:
        leaves = [reference() for reference in list(self._tracked.values())]
        return [leaf for leaf in leaves
                if leaf is not None and leaf.is_leaf and leaf.grad is not None
                and not isinstance(leaf.grad, SpentGradient)]
