"""The messages in which ranks tell each other what they call: 128 bytes of a number of rows, the
beginning of the call's text, and a hash of all of it."""

from __future__ import annotations

import dataclasses
import hashlib

import torch

from .wire import tensor_of_bytes

MESSAGE_BYTES = 128
_ROWS, _HASH = 8, 8
_TEXT = MESSAGE_BYTES - _ROWS - _HASH


@dataclasses.dataclass(frozen=True)
class Call:
    """``text``: such as "allreduce(sum) of float32[3, 4]". ``rows``: of this rank, where they may
    differ between ranks."""

    text: str
    rows: int
    hash: bytes

    def equals(self, other: Call) -> bool:
        """But for the rows."""
        return (self.text, self.hash) == (other.text, other.hash)


def encoded_call(text: str, rows: int) -> torch.Tensor:
    """The message as a tensor on the CPU."""
    data = text.encode()
    message = (rows.to_bytes(_ROWS, "little") + data[:_TEXT].ljust(_TEXT, b"\0")
               + hashlib.sha256(data).digest()[:_HASH])
    return tensor_of_bytes(message)


def decoded_call(message: torch.Tensor) -> Call:
    """Of a message; a long text is shortened."""
    data = bytes(message.tolist())
    text = data[_ROWS:_ROWS + _TEXT].rstrip(b"\0").decode(errors="replace")
    return Call(text, int.from_bytes(data[:_ROWS], "little"), data[-_HASH:])


def tensor_text(x: torch.Tensor) -> str:
    """Type and shape, such as "float32[3, 4]"."""
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def rows_text(x: torch.Tensor) -> str:
    """Type and shape, the number of rows left open, such as "float32[rows, 4]"."""
    return tensor_text(x[:0]).replace("[0", "[rows", 1)
