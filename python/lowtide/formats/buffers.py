"""The buffers of a plan as MiniMalloc's CSV, which ``lowtide layout`` reads too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import InputError
from ..page.lives import Life
from .shown_plan import ShownPlan


def buffers_csv(shown: Sequence[ShownPlan]) -> bytes:
    """A line for each; times are positions in the list of actions, ``upper`` is not included.
    Residents are no buffers: offsets are those in the arena behind them. Raises InputError for more
    than one plan: each has a block of its own."""
    if len(shown) != 1:
        names = ", ".join(plan.graph.name for plan in shown)
        raise InputError(f"a CSV of buffers is of one graph, and there are {len(shown)} ({names}): "
                         f"write a page, a trace, a snapshot or a dot file, which hold several")
    return "\n".join([*_lines(shown[0]), ""]).encode()


def _lines(shown: ShownPlan) -> Iterator[str]:
    has_addresses = shown.plan.arena_bytes is not None
    yield "id,lower,upper,size,offset" if has_addresses else "id,lower,upper,size"
    for life in sorted(shown.lives, key=lambda life: life.begin):
        row = [_id(shown, life), life.begin, life.end, life.bytes]
        yield ",".join(map(str, [*row, life.offset] if has_addresses else row))


def _id(shown: ShownPlan, life: Life) -> str:
    """Unlike those of all others: what is made again is another buffer."""
    number = f"w{life.op}" if life.tensor is None else f"t{life.tensor}"
    name = "".join(character if character.isalnum() and character.isascii() else "_"
                   for character in shown.name_of(life))
    return f"{number}@{life.begin}:{name}"
