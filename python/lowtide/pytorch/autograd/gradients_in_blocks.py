"""Gradients that the caller keeps leave the blocks where they were made."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..budget.account import BudgetAccount
from .admission import Admission
from .kept_gradients import KeptGradients
from .region import Region


class GradientsInBlocks:
    """Of the ``gradients`` that are kept, those that lie in blocks of ``regions``, a list that its
    owner changes. ``kept_bytes``: what all took when they were last counted.
    """

    def __init__(self, gradients: KeptGradients, regions: Sequence[Region],
                 account: BudgetAccount[Region], admission: Admission):
        self._gradients, self._regions = gradients, regions
        self._account, self._admission = account, admission
        self.kept_bytes = 0

    def tracks(self, leaf: int) -> bool:
        """Whether the gradient of the tensor with this identity may come from here."""
        return self._gradients.tracks(leaf)

    def beside(self) -> dict[int, int]:
        """By the identities of tensors, the bytes of gradients that lie in no block."""
        return self._gradients.bytes_of_those(lambda gradient: not self._in_a_block(gradient))

    def clear(self, region: Region) -> None:
        """Moves them out before a pass of this region."""
        self.kept_bytes = self._gradients.bytes()
        if self.kept_bytes:
            self._move_out(region)

    def holding(self) -> list[Region]:
        """In whose blocks somebody keeps gradients nevertheless, others than those in ``.grad``."""
        return [region for region in self._regions
                if not region.passes.copies_gradients and region.holds_gradients]

    def count(self, kept_bytes: int, holding: Sequence[Region]) -> None:
        """So many bytes are kept. The gradients of the regions ``holding`` get memory of their own
        from now on: they would keep the block where they lie."""
        self._account.reserve_gradients(kept_bytes)
        for region in holding:
            region.passes.copies_gradients = True
            self._account.invalidate()

    def leave_for_budget(self, region: Region) -> None:
        """Moves them out where the blocks exceed the budget, as things are in a step with this
        region."""
        self.kept_bytes = self._gradients.bytes()
        if self.kept_bytes and not self._admission.is_within(region):
            self._move_out(region)

    def _move_out(self, region: Region) -> None:
        if self._admission.has(region, self.kept_bytes):
            self._gradients.move_out(self._in_a_block)
        else:
            self._gradients.move_out_by_file(self._in_a_block, self._admission.release_idle)

    def _in_a_block(self, gradient: torch.Tensor) -> bool:
        return any(executor.contains(gradient) for region in self._regions
                   for executor in region.executors if executor.held_bytes)
