"""Plans as a graph for Graphviz: what is kept, run again and moved."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .. import format_bytes
from ..page.decisions import kept_lives
from .shown_plan import ShownPlan

#: What lies deeper is in the cluster of this depth, under its whole path.
_DEEPEST = 12

class _Fate(enum.Enum):
    """Of what an op makes. The value: shape and colour."""

    AGAIN = "doubleoctagon", "#fdbf6f"
    MOVED = "cylinder", "#cab2d6"
    KEPT = "box3d", "#a6cee3"
    OTHER = "box", "#ffffff"


_LEGEND = {_Fate.KEPT: "kept from the forward pass\nuntil the backward pass",
           _Fate.AGAIN: "run again", _Fate.MOVED: "moved to slower memory\nand back",
           _Fate.OTHER: "none of these"}


def plan_dot(shown: Sequence[ShownPlan]) -> bytes:
    """A node for each op, in clusters by module; an edge for each value that another op of its
    phase reads, and a note for what is read of another phase. Residents are left out."""
    lines = ["digraph plan {", "  rankdir=TB; fontname=\"sans-serif\";",
             "  node [fontname=\"sans-serif\", style=filled, fontsize=11];", *_legend()]
    for number, plan in enumerate(shown):
        lines += _graph(number, plan)
    return "\n".join([*lines, "}", ""]).encode()


def _legend() -> Iterator[str]:
    yield "  subgraph cluster_legend { label=\"what an op makes is\"; style=dashed;"
    for fate, text in _LEGEND.items():
        yield f"    legend_{fate.name.lower()} [{_looks(fate)}, label={_quoted(text)}];"
    yield "  }"


def _graph(number: int, shown: ShownPlan) -> Iterator[str]:
    label = (f"{shown.graph.name}\npeak {format_bytes(shown.plan.peak_bytes)}, "
             f"{shown.explained.overhead:.2%} above keep-all's time")
    yield f"  subgraph cluster_{number} {{ label={_quoted(label)};"
    fates, texts = _fates(shown), _texts(shown)
    clusters = _Clusters(f"cluster_{number}")
    for index, op in enumerate(shown.ops):
        about = [op.name, f"{op.type} ({op.phase})", *texts.get(index, ())]
        clusters.add(shown.origins[index].layer,
                     f"op{number}_{index} [{_looks(fates.get(index, _Fate.OTHER))}, "
                     f"label={_quoted(chr(10).join(about))}, "
                     f"tooltip={_quoted(shown.origins[index].line or op.name)}];")
    for reader, note in _notes(number, shown, fates):
        clusters.add(shown.origins[reader].layer, note)
    yield from clusters.lines()
    yield "  }"
    yield from _edges(number, shown, fates)


def _fates(shown: ShownPlan) -> dict[int, _Fate]:
    """By op, the first that holds of those in the order of the list."""
    maker = _makers(shown)
    kept = kept_lives(shown.ops, shown.plan, shown.explained, shown.lives)
    found = {life.op: _Fate.KEPT for life in kept}
    found |= {maker[moved.storage]: _Fate.MOVED for moved in shown.explained.moved
              if moved.storage in maker}
    again = [*shown.again, *(again.op for again in shown.explained.again)]
    return found | dict.fromkeys(again, _Fate.AGAIN)


def _texts(shown: ShownPlan) -> dict[int, list[str]]:
    """By op, what a reader without colours needs; a value may have several fates."""
    maker, found = _makers(shown), {}
    for life in kept_lives(shown.ops, shown.plan, shown.explained, shown.lives):
        found.setdefault(life.op, []).append(f"keeps {format_bytes(life.bytes)}")
    for again in shown.explained.again:
        found.setdefault(again.op, []).append(f"runs {again.runs} times")
    for op in shown.again:
        found.setdefault(op, []).append("computes again what the forward pass did")
    for moved in shown.explained.moved:
        if moved.storage in maker:
            size = format_bytes(shown.tensors[moved.storage].bytes)
            found.setdefault(maker[moved.storage], []).append(f"moves {size}")
    return found


def _makers(shown: ShownPlan) -> dict[int, int]:
    return {tensor: number for number, op in enumerate(shown.ops) for tensor in op.outputs}


class _Read(NamedTuple):
    """That an op reads a value which another op made."""

    reader: int
    tensor: int
    source: int
    #: In which the value was made, unless that is the reader's own phase.
    from_phase: str | None


def _reads(shown: ShownPlan) -> Iterator[_Read]:
    maker = _makers(shown)
    for reader, op in enumerate(shown.ops):
        for tensor in dict.fromkeys(op.inputs):
            if tensor in maker:
                phase = shown.ops[maker[tensor]].phase
                yield _Read(reader, tensor, maker[tensor], None if phase == op.phase else phase)


def _notes(number: int, shown: ShownPlan, fates: Mapping[int, _Fate]) -> Iterator[tuple[int, str]]:
    """By op, a node beside it for each value that it reads of another phase: edges across the whole
    picture would be followed by no eye, and take Graphviz minutes."""
    for read in _reads(shown):
        if read.from_phase is not None:
            _, colour = fates.get(read.source, _Fate.OTHER).value
            label = f"{shown.tensors[read.tensor].name}\n{read.from_phase}"
            yield read.reader, (f"{_note(number, read)} [shape=note, fillcolor=\"{colour}\", "
                                f"label={_quoted(label)}];")


def _note(number: int, read: _Read) -> str:
    return f"note{number}_{read.reader}_{read.tensor}"


def _edges(number: int, shown: ShownPlan, fates: Mapping[int, _Fate]) -> Iterator[str]:
    for read in _reads(shown):
        start = f"op{number}_{read.source}" if read.from_phase is None else _note(number, read)
        style = "dashed" if fates.get(read.source) is _Fate.AGAIN else "solid"
        tensor = shown.tensors[read.tensor]
        yield (f"  {start} -> op{number}_{read.reader} [style={style}, "
               f"tooltip={_quoted(f'{tensor.name}, {format_bytes(tensor.bytes)}')}];")


class _Clusters:
    """Nodes by the path of their module, each module in that around it."""

    def __init__(self, name: str):
        self._name = name
        self._nodes: list[str] = []
        self._inner: dict[str, _Clusters] = {}

    def add(self, path: str, node: str) -> None:
        cluster = self
        for part in filter(None, path.split(".", _DEEPEST - 1)):
            if part not in cluster._inner:
                name = f"{cluster._name}_{len(cluster._inner)}"
                cluster._inner[part] = _Clusters(name)
            cluster = cluster._inner[part]
        cluster._nodes.append(node)

    def lines(self, indent: str = "    ") -> Iterator[str]:
        for node in self._nodes:
            yield indent + node
        for part, inner in self._inner.items():
            yield f"{indent}subgraph {inner._name} {{ label={_quoted(part)};"
            yield from inner.lines(indent + "  ")
            yield indent + "}"


def _looks(fate: _Fate) -> str:
    shape, colour = fate.value
    return f"shape={shape}, fillcolor=\"{colour}\""


def _quoted(text: str) -> str:
    """A string of DOT, in which nothing but the end of a line has a meaning."""
    escaped = (text.replace("&", "&amp;").replace("\\", "\\\\").replace("\"", "\\\"")
               .replace("\n", "\\n"))
    return "\"" + "".join(character if character >= " " else " " for character in escaped) + "\""
