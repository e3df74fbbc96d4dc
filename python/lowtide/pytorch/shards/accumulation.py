"""Gradients that are added up on each rank, and reduced once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.distributed as dist

from .group import Group


class LocalAccumulation:
    """Of the parameters that ``parameters`` gives, each a plain copy on each rank of the group."""

    def __init__(self, group: Group, parameters: Callable[[], Iterable[torch.Tensor]]):
        self._group, self._parameters = group, parameters
        self._is_left = False

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in it add to ``.grad`` what this rank alone has."""
        before = self._group.reduces
        self._group.reduces, self._is_left = False, True
        try:
            yield
        finally:
            self._group.reduces = before

    def reduce_what_is_left(self) -> None:
        """Where gradients are reduced from now on, what was added up before becomes the mean of all
        ranks, in the memory where it is. Raises Error where ranks have other gradients."""
        if not self._group.reduces or not self._is_left:
            return
        self._is_left = False
        gradients = [parameter.grad for parameter in self._parameters()
                     if parameter.grad is not None]
        self._group.meet("reduce gradients of no_sync",
                         str([(gradient.shape, gradient.stride()) for gradient in gradients]))
        with self._group.named("a reduction of gradients of no_sync"):
            works = [dist.all_reduce(_in_a_row(gradient.div_(self._group.size)),
                                     group=self._group.data, async_op=True)
                     for gradient in gradients]
            for work in works:
                work.wait()


def _in_a_row(gradient: torch.Tensor) -> torch.Tensor:
    """The elements as they lie in memory, which is the same on all ranks."""
    return gradient.as_strided((gradient.numel(),), (1,))
