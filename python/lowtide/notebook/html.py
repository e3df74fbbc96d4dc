"""Parts of what a notebook shows. Text has the notebook's own colour, so that it is readable in
light and dark; all that is drawn has one colour that stands out from both."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from .._core import format_bytes

_COLOUR = "#1f8a83"
#: More points than a small picture has columns would not be seen.
_COLUMNS = 240
_WIDTH, _HEIGHT = 240, 48


def bars(sizes: Mapping[str, int]) -> str:
    """A table with a row for each, and a bar as long as its share of the largest."""
    most = max(sizes.values(), default=0) or 1
    return _table("".join(
        f"<tr>{_head(name)}<td>{format_bytes(size)}</td><td style=\"width: 20em\">"
        f"<div style=\"background: {_COLOUR}; height: 0.8em; width: {100 * size / most:.1f}%\">"
        f"</div></td></tr>" for name, size in sizes.items()))


def facts(values: Mapping[str, str], pictures: Mapping[str, str] | None = None) -> str:
    """A table of names and texts; ``pictures``: of HTML, below them."""
    rows = "".join(f"<tr>{_head(name)}{_cell(text)}</tr>" for name, text in values.items())
    rows += "".join(f"<tr>{_head(name)}<td>{picture}</td></tr>"
                    for name, picture in (pictures or {}).items())
    return _table(rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Each cell is a text."""
    shown = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return _table(f"<tr>{''.join(map(_head, heads))}</tr>{shown}")


def sparkline(values: Sequence[float], title: str) -> str:
    """A curve from 0 to the largest, which stays visible where there are more values than columns.
    ``title``: what it shows, for those who do not see it."""
    shown = _highest(values)
    most, last = max(shown, default=0.0) or 1.0, max(1, len(shown) - 1)
    points = " ".join(f"{_WIDTH * at / last:.1f},{_HEIGHT * (1 - value / most):.1f}"
                      for at, value in enumerate(shown))
    return (f"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{_WIDTH}\" "
            f"height=\"{_HEIGHT}\" viewBox=\"0 -1 {_WIDTH} {_HEIGHT + 2}\">"
            f"<title>{html.escape(title)}</title>"
            f"<polygon points=\"0,{_HEIGHT} {points} {_WIDTH},{_HEIGHT}\" fill=\"{_COLOUR}\" "
            f"fill-opacity=\"0.3\"/>"
            f"<polyline points=\"{points}\" fill=\"none\" stroke=\"{_COLOUR}\"/></svg>")


def _highest(values: Sequence[float]) -> list[float]:
    """Of each column."""
    if len(values) <= _COLUMNS:
        return list(values)
    ends = [number * len(values) // _COLUMNS for number in range(_COLUMNS + 1)]
    return [max(values[begin:end]) for begin, end in zip(ends, ends[1:])]


def _table(rows: str) -> str:
    return f"<table>{rows}</table>"


def _head(name: str) -> str:
    return f"<th style=\"text-align: left\">{html.escape(name)}</th>"


def _cell(text: str) -> str:
    return f"<td style=\"text-align: left\">{html.escape(text)}</td>"
