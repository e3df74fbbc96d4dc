"""Where the ops of a graph come from, and few groups of the layers that they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .. import Op
from ..source_line import SourceLine

#: More would not be told apart in a picture.
_MOST_GROUPS = 8
_DEEPEST = 6


class Origin(NamedTuple):
    """``layer``: the path of the module, "" for none; ``source``: of the user's code, where it is
    known."""

    layer: str = ""
    source: SourceLine | None = None

    @property
    def line(self) -> str:
        """The source as a text, "" where it is not known."""
        return "" if self.source is None else str(self.source)


def origins_of_names(ops: Iterable[Op]) -> list[Origin]:
    """By the names of ops: ``blocks.0.attn.softmax`` lies in ``blocks.0.attn``."""
    return [Origin(op.name.rpartition(".")[0]) for op in ops]


def layer_groups(layers: Iterable[str]) -> dict[str, str]:
    """By layer, the name of its group. Layers are given in the order in which they run; a group
    is a part of the model, or some that follow each other: ``blocks.0 – blocks.3``."""
    paths = list(dict.fromkeys(layer for layer in layers if layer))
    depth = _depth(paths)
    parts = list(dict.fromkeys(_part(path, depth) for path in paths))
    names = _ranges(parts)
    return {path: names[_part(path, depth)] for path in paths}


def _part(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])


def _depth(paths: Sequence[str]) -> int:
    """The deepest one with few enough parts, or a deeper one where most layers lie in one part."""
    counts = [Counter(_part(path, depth) for path in paths) for depth in range(1, _DEEPEST + 1)]
    depth = max((depth for depth, count in enumerate(counts, 1) if len(count) <= _MOST_GROUPS),
                default=1)
    while depth < _DEEPEST and max(counts[depth - 1].values(), default=0) > len(paths) / 2:
        depth += 1
    return depth


def _ranges(parts: Sequence[str]) -> dict[str, str]:
    """At most so many groups, of parts that follow each other."""
    groups = min(len(parts), _MOST_GROUPS)
    named = {}
    for number in range(groups):
        some = parts[number * len(parts) // groups:(number + 1) * len(parts) // groups]
        name = some[0] if len(some) == 1 else f"{some[0]} – {some[-1]}"
        named.update(dict.fromkeys(some, name))
    return named
