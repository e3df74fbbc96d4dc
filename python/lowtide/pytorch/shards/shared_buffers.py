"""Buffers of a model on several ranks, each of which sees batches of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterator

import torch

from .group import Group


@dataclasses.dataclass(frozen=True)
class _Seen:
    """A buffer as it was."""

    buffer: weakref.ref[torch.Tensor]
    version: int

    @classmethod
    def of(cls, buffer: torch.Tensor) -> _Seen:
        # Nothing writes to one of inference mode outside of that.
        return cls(weakref.ref(buffer), 0 if buffer.is_inference() else buffer._version)


class SharedBuffers:
    """Forward passes of a training begin with the buffers of the first rank, as those of
    DistributedDataParallel do: with running statistics, for example, of the batches that it saw.
    Behind a pass whose gradients are not reduced, ranks go on with their own.

    All ranks have the same buffers when it is made.
    """

    def __init__(self, model: torch.nn.Module, group: Group):
        self._model, self._group = model, group
        self._seen = self._now()
        self._is_due = self._reduces = True

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of what runs in it are not reduced."""
        before, self._reduces = self._reduces, False
        try:
            yield
        finally:
            self._reduces = before

    def begin_forward(self) -> None:
        """All ranks do this together. Evaluation leaves buffers as they are on each of them: a rank
        may evaluate alone. Raises Error where ranks do something else."""
        if not torch.is_grad_enabled():
            return
        if self._is_due:
            self._share()
        self._is_due = self._reduces

    def _share(self) -> None:
        now = self._now()
        if not now:
            return
        buffers = [[seen.buffer() for seen in module] for module in now]
        about = str([[(one.dtype, one.shape) for one in module] for module in buffers])
        changed = self._group.any_of("share buffers", about,
                                     [place >= len(self._seen) or module != self._seen[place]
                                      for place, module in enumerate(now)])
        sent = [one for module, is_other in zip(buffers, changed) if is_other for one in module]
        # As DistributedDataParallel does: passes that wait for their backward pass may have saved
        # them, as they were or not.
        with torch.autograd._unsafe_preserve_version_counter(tuple(sent)):
            self._group.copy_of_first(sent)
        self._seen = now

    def _now(self) -> list[list[_Seen]]:
        """By module. They change together: PyTorch's batch norm says so of its counter alone."""
        found = [[_Seen.of(buffer) for buffer in module.buffers(recurse=False)]
                 for module in self._model.modules()]
        return [module for module in found if module]
