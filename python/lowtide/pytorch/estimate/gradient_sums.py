"""Sums of gradients that autograd's engine makes where a value was used several times.

The engine writes such a sum over the first gradient if nobody else has that. Over a fake tensor it
never does, so that a traced step would hold one tensor too many while the sum is made.
"""

from __future__ import annotations

import torch

from .ledger import Ledger


class GradientSums:
    """Follows the ops of a backward pass, and tells the sums among them that may be in place."""

    def __init__(self, ledger: Ledger):
        self._ledger = ledger
        self._node: int | None = None
        self._since = 0

    def may_be_in_place(self, op: torch._ops.OpOverload, arguments: tuple) -> bool:
        """Whether this op, the next one of the pass, is a sum by the engine over a dense gradient.
        The engine adds the results of the node that ran last to what earlier nodes made. An
        addition within a node begins with what that node made, or with what is still there after
        it; one of a user's function is never told from it, and one that a checkpoint runs again
        has gradients of its own."""
        node = torch._C._current_autograd_node()
        number = None if node is None else node._sequence_nr()
        if number != self._node:
            self._node, self._since = number, self._ledger.time
        return (op is torch.ops.aten.add.Tensor and not torch.is_grad_enabled()
                and not isinstance(node, torch.autograd.function.BackwardCFunction)
                and isinstance(arguments[1], torch.Tensor)
                and self._ledger.was_there(arguments[0], self._since)
                and _is_dense(arguments[0]))


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill a part of memory without gaps and overlaps."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
