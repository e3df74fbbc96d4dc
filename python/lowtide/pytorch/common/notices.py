"""Warnings that point at the user's own line."""

from __future__ import annotations

import contextlib
import sys
import warnings

from .source_folders import OF_LOWTIDE, OF_TORCH

#: Context managers of ours stand between ours and the user's own lines.
_NOT_USERS = (OF_TORCH, OF_LOWTIDE, contextlib.__file__, "<")


class Notices:
    """Says each thing once, whatever filters the program has for warnings that repeat."""

    def __init__(self):
        self._said: set[str] = set()
        self._most: dict[str, int] = {}

    def warn_once(self, cause: str, message: str) -> None:
        """``cause``: what tells one notice from another."""
        if cause not in self._said:
            self._said.add(cause)
            warn(message)

    def warn_of_more(self, cause: str, amount: int, message: str) -> None:
        """The same of an amount, again only where it is larger than any that was named."""
        if amount > self._most.get(cause, 0):
            self._most[cause] = amount
            warn(message)


def warn(message: str) -> None:
    """A UserWarning at the innermost line that is neither PyTorch's nor ours."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_USERS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level + 1 if frame is not None else 2)
