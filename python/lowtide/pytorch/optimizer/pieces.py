"""How the state of parameters is cut into pieces, each of which moves at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

#: Bytes: of addresses of tensors in a piece, and of pieces in a store, as a disk wants them.
_ALIGNMENT = 64
PAGE = 4096

#: Elements: parts of a parameter begin at multiples of it, so that kernels that take several at
#: once, and the last ones alone, take the same ones together as in the whole parameter.
_UNIT = 4096

#: Bytes of a piece at least, below which copies are slow, and at most, beyond which nothing is
#: gained.
_LEAST_BYTES, _MOST_BYTES = 1 << 18, 1 << 25
#: The room that a budget leaves beside parameters and gradients has three pieces at a time (one is
#: read, one is updated, one is written) and the temporaries of an update: of Adam, as much as two.
_PIECES_IN_ROOM = 8


@dataclasses.dataclass(eq=False)
class Part:
    """Elements ``begin`` to ``end`` of a parameter, in the order of its storage, and the tensors
    ``names`` of its state for them.

    ``layout``: has the parameter's shape, strides and type of the time when it was cut, by which
    its state is stored; other code may exchange the parameter's data for another one's. ``place``:
    where that state begins in its piece, in bytes. ``numbers``: what else the state has, which
    stays in memory; None as long as there is no state in slower memory.
    """

    parameter: torch.Tensor
    layout: torch.Tensor
    begin: int
    end: int
    names: tuple[str, ...]
    place: int
    numbers: dict | None = None

    @property
    def is_first(self) -> bool:
        return self.begin == 0

    @property
    def is_last(self) -> bool:
        return self.end == self.layout.numel()

    @property
    def is_whole(self) -> bool:
        return self.is_first and self.is_last

    @property
    def parameter_bytes(self) -> int:
        return (self.end - self.begin) * self.layout.itemsize

    @property
    def bytes(self) -> int:
        return len(self.names) * _aligned(self.parameter_bytes, _ALIGNMENT)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """These elements of a tensor that is as large as the parameter. They share its memory
        where its strides are the layout's."""
        if self.is_whole:
            return tensor
        return flat(like(self.layout, tensor))[self.begin:self.end]

    def places(self) -> Iterator[tuple[str, int]]:
        """Where each tensor of the state begins in the piece, in bytes."""
        each = _aligned(self.parameter_bytes, _ALIGNMENT)
        for number, name in enumerate(self.names):
            yield name, self.place + number * each

    def tensors_in(self, memory: torch.Tensor) -> dict[str, torch.Tensor]:
        """The state's tensors in the memory of a piece."""
        found = {name: memory[place:place + self.parameter_bytes].view(self.layout.dtype)
                 for name, place in self.places()}
        if self.is_whole:
            found = {name: tensor.as_strided(self.layout.shape, self.layout.stride())
                     for name, tensor in found.items()}
        return found


@dataclasses.dataclass(eq=False)
class Piece:
    """Parts whose state lies side by side, in ``bytes``: in slower memory in ``store``, from
    ``offset`` on. ``name``: for messages."""

    parts: list[Part]
    bytes: int
    store: Any = None
    offset: int = 0
    name: str = ""

    @property
    def parameter_bytes(self) -> int:
        return sum(part.parameter_bytes for part in self.parts)


def piece_bytes(room_bytes: int) -> int:
    """How large pieces are at most, where a budget leaves so much beside parameters and
    gradients."""
    return max(_LEAST_BYTES, min(_MOST_BYTES, room_bytes // _PIECES_IN_ROOM))


def cut(wanted: Mapping[torch.Tensor, tuple[str, ...]], largest_bytes: int) -> list[Piece]:
    """Pieces of ``largest_bytes`` or less, at least one page, for parameters in this order, each
    with the names of its state's tensors."""
    pieces = [Piece([], 0)]
    for parameter, names in wanted.items():
        layout = torch.empty_like(parameter, device="meta")
        for begin, end in _ranges(parameter, len(names), largest_bytes):
            part = Part(parameter, layout, begin, end, names, pieces[-1].bytes)
            if pieces[-1].parts and part.place + part.bytes > largest_bytes:
                part.place = 0
                pieces.append(Piece([], 0))
            pieces[-1].parts.append(part)
            pieces[-1].bytes = part.place + part.bytes
    for piece in pieces:
        piece.bytes = _aligned(piece.bytes, PAGE)
    return [piece for piece in pieces if piece.parts]


def runs(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Pieces between which no parameter is cut."""
    run: list[Piece] = []
    for piece in pieces:
        run.append(piece)
        if piece.parts[-1].is_last:
            yield run
            run = []
    if run:
        yield run


def may_move(parameter: torch.Tensor, device: torch.device) -> bool:
    """Whether state of the parameter can be cut anywhere and be put together again."""
    return (type(parameter) in (torch.Tensor, torch.nn.Parameter) and parameter.requires_grad
            and parameter.device == device and parameter.numel() > 0
            and parameter.layout is torch.strided
            and torch.empty_like(parameter, device="meta").stride() == parameter.stride())


def like(layout: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with the strides of the layout."""
    if tensor.stride() == layout.stride():
        return tensor
    return torch.empty_like(layout, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a dense tensor in the order of its storage, which they share."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def _ranges(parameter: torch.Tensor, tensors: int,
            largest_bytes: int) -> Sequence[tuple[int, int]]:
    """Elements of which the state fits, as few ranges as do."""
    elements = largest_bytes // (tensors * parameter.itemsize)
    if elements >= parameter.numel():
        return [(0, parameter.numel())]
    step = max(_UNIT, elements // _UNIT * _UNIT)
    return [(begin, min(begin + step, parameter.numel()))
            for begin in range(0, parameter.numel(), step)]


def _aligned(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
