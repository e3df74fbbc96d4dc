"""Memory for pieces of state, read while the piece before is updated and written while the next is.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable

import torch

from ... import Error
from .pieces import PAGE, Piece


@dataclasses.dataclass(eq=False)
class _Copy:
    """Under way. ``ended``: is called when it has ended well."""

    piece: Piece
    memory: torch.Tensor
    number: int
    ended: Callable[[], None] = lambda: None

    def finish(self) -> None:
        self.piece.store.wait(self.number)
        self.ended()


class Pipeline:
    """Gives the memory of pieces one after the other, and takes it back to write it. At most three
    are there at one time.

    ``is_away``: whether a parameter's state is in slower memory alone, which a piece is read for.
    ``device``: whose memory it is.
    """

    def __init__(self, pieces: Iterable[Piece], is_away: Callable[[torch.Tensor], bool],
                 device: torch.device):
        self._device, self._is_away = device, is_away
        self._left = iter(pieces)
        self._behind: _Copy | None = None
        self._ahead: _Copy | None = None
        self._has_begun = False

    def take(self) -> torch.Tensor | None:
        """The memory of the next piece; None where nothing of it is away. Raises Error where a copy
        back failed."""
        if not self._has_begun:
            self._has_begun, self._ahead = True, self._begin_read()
        read = self._ahead
        if read is not None:
            read.finish()
        self._ahead = self._begin_read()
        return None if read is None else read.memory

    def put(self, piece: Piece, memory: torch.Tensor, ended: Callable[[], None]) -> None:
        """Writes the memory of a piece, and calls ``ended`` when that has ended well. Raises Error
        where the write of the piece before it failed; then this one is not written."""
        self._finish_behind()
        self._behind = _Copy(piece, memory, begin_write(piece, memory), ended)

    def close(self) -> None:
        """Awaits what is under way. Raises Error where a write failed."""
        if self._ahead is not None:
            with contextlib.suppress(Error):  # nobody wants it any more
                self._ahead.finish()
        self._finish_behind()

    def _finish_behind(self) -> None:
        write, self._behind = self._behind, None
        if write is not None:
            write.finish()

    def _begin_read(self) -> _Copy | None:
        piece = next(self._left, None)
        if piece is None or not any(part.numbers is not None and self._is_away(part.parameter)
                                    for part in piece.parts):
            return None
        memory = memory_of(piece, self._device)
        number = piece.store.read(piece.offset, memory, piece.name)
        return _Copy(piece, memory, number)


def begin_write(piece: Piece, memory: torch.Tensor) -> int:
    """The number of the copy, for ``piece.store.wait``; the memory must be there until then."""
    return piece.store.write(piece.offset, memory, piece.name)


def memory_of(piece: Piece, device: torch.device) -> torch.Tensor:
    """Bytes for a piece, with undefined content, at an address from which a disk copies without a
    buffer."""
    taken = torch.empty(piece.bytes + PAGE, dtype=torch.uint8, device=device)
    begin = -taken.data_ptr() % PAGE
    return taken[begin:begin + piece.bytes]
