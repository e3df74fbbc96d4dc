"""Rows of text as a table."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A line for each row; the first ``left`` columns begin below each other, the others end so."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(
        f"{cell:<{width}}" if index < left else f"{cell:>{width}}"
        for index, (cell, width) in enumerate(zip(row, widths))).rstrip() for row in rows)
