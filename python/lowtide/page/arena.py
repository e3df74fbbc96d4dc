"""The arena of a plan: time against address."""

from __future__ import annotations

import base64
import heapq
from collections.abc import Sequence
from typing import NamedTuple

from .lives import Content, Life

#: Boxes that a page can draw one by one. The others are told apart by no eye.
_MOST_BOXES = 1500
_RASTER_COLUMNS, _RASTER_ROWS = 480, 240
_EMPTY = 255


class Raster(NamedTuple):
    """Boxes that are too small to be drawn one by one: rows of cells from address 0 upwards, each
    with the number of a Content, or 255."""

    columns: int
    rows: int
    cells: str
    boxes: int


class Arena(NamedTuple):
    """``boxes``: the largest, by bytes times time; ``raster``: the others, where there are some."""

    boxes: list[Life]
    raster: Raster | None


def arena(lives: Sequence[Life], reached: Sequence[float], resident_bytes: int,
          arena_bytes: int) -> Arena:
    """``reached``: the times of the actions, and of the end; ``arena_bytes`` with residents."""
    placed = [life for life in lives
              if life.offset is not None and reached[life.end] > reached[life.begin]]

    def area(life: Life) -> float:
        return life.bytes * (reached[life.end] - reached[life.begin])

    large = heapq.nlargest(_MOST_BOXES, placed, key=area)
    if len(large) == len(placed):
        return Arena(large, None)
    drawn = set(map(id, large))
    small = [life for life in placed if id(life) not in drawn]
    return Arena(large, _raster(small, reached, resident_bytes, arena_bytes))


def _raster(lives: Sequence[Life], reached: Sequence[float], resident_bytes: int,
            arena_bytes: int) -> Raster:
    numbers = {content: number for number, content in enumerate(Content)}
    rows = [bytearray([_EMPTY]) * _RASTER_COLUMNS for _ in range(_RASTER_ROWS)]
    per_column, per_row = reached[-1] / _RASTER_COLUMNS, arena_bytes / _RASTER_ROWS
    for life in lives:
        first, last = _cells(reached[life.begin], reached[life.end], per_column, _RASTER_COLUMNS)
        bottom = resident_bytes + life.offset
        low, high = _cells(bottom, bottom + life.bytes, per_row, _RASTER_ROWS)
        for row in rows[low:high + 1]:
            row[first:last + 1] = bytes([numbers[life.content]]) * (last + 1 - first)
    cells = base64.b64encode(b"".join(rows)).decode()
    return Raster(_RASTER_COLUMNS, _RASTER_ROWS, cells, len(lives))


def _cells(begin: float, end: float, size: float, count: int) -> tuple[int, int]:
    """The first and the last cell that an interval touches."""
    first = min(int(begin / size), count - 1)
    return first, max(first, min(int(end / size), count - 1))
