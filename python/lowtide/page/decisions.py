"""What a plan keeps, runs again and moves, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .. import Graph, Op, Plan, _core, format_bytes
from .compiled import CompiledPlan
from .lives import Content, Life
from .origins import Origin

#: A table is looked through in a page up to so many.
_MOST_ROWS = 1000


class Decision(NamedTuple):
    """``what``: "kept", "run again" or "moved"; ``name``: of the value, of an op that runs again;
    ``cost``: of reruns or copies, as a share of keep-all."""

    what: str
    name: str
    type: str
    layer: str
    line: str
    bytes: int
    times: int
    cost: float
    why: str


class Decisions(NamedTuple):
    """``rows``: first what costs most, then what is largest; ``left_out``: of each kind, how many
    more there are, and their bytes."""

    rows: list[Decision]
    left_out: dict[str, tuple[int, int]]


def decisions(graph: Graph, plan: Plan, explained: _core.Explanation, lives: Sequence[Life],
              origins: Sequence[Origin], whole_cost: float,
              compiled: CompiledPlan | None = None) -> Decisions:
    """``explained``: of the plan, and ``lives`` of its values; ``whole_cost``: of keep-all."""
    found = _Decisions(graph, explained, origins, whole_cost)
    rows = [*found.again(), *found.moved(), *found.kept(plan, lives)]
    if compiled is not None:
        rows += found.compiled_again(compiled)
    rows.sort(key=lambda row: (-row.cost, -row.bytes))
    left_out: dict[str, tuple[int, int]] = {}
    for row in rows[_MOST_ROWS:]:
        count, size = left_out.get(row.what, (0, 0))
        left_out[row.what] = count + 1, size + row.bytes
    return Decisions(rows[:_MOST_ROWS], left_out)


def kept_lives(ops: Sequence[Op], plan: Plan, explained: _core.Explanation,
               lives: Sequence[Life]) -> Iterator[Life]:
    """Of activations that are held from the forward pass until ops behind it have read them."""
    again = {again.op for again in explained.again}
    moved = {moved.storage for moved in explained.moved}
    behind = next((at for at, action in enumerate(plan.actions)
                   if action[0] == "run" and ops[action[1]].phase != "forward"),
                  len(plan.actions))
    for life in lives:
        if (life.content is Content.ACTIVATIONS and life.begin < behind < life.end
                and life.op not in again and life.tensor not in moved):
            yield life


class _Decisions:
    def __init__(self, graph: Graph, explained: _core.Explanation, origins: Sequence[Origin],
                 whole_cost: float):
        self._ops, self._tensors = graph.ops, graph.tensors
        self._explained, self._origins = explained, origins
        self._whole = whole_cost or 1.0
        self._maker = {tensor: number for number, op in enumerate(self._ops)
                       for tensor in op.outputs}

    def again(self) -> Iterator[Decision]:
        for again in self._explained.again:
            op, origin = self._ops[again.op], self._origins[again.op]
            made = sum(self._tensors[tensor].bytes for tensor in op.outputs)
            yield Decision("run again", op.name, op.type, origin.layer, origin.line, made,
                           again.runs - 1, again.cost / self._whole,
                           self._why_again(again.absence, made))

    def compiled_again(self, compiled: CompiledPlan) -> Iterator[Decision]:
        for number in sorted(compiled.again):
            op, origin = self._ops[number], self._origins[number]
            made = sum(self._tensors[tensor].bytes for tensor in op.outputs)
            yield Decision("run again", op.name, op.type, origin.layer, origin.line, made, 1,
                           op.cost / self._whole, compiled.why_again)

    def _why_again(self, absence: _core.Absence | None, made: int) -> str:
        if absence is None:
            return "" if made else "a view: it takes neither bytes nor time"
        ops = self._ops
        return (f"held instead, it takes {format_bytes(absence.bytes)} from "
                f"{ops[absence.last_used_in].name} to {ops[absence.back_for].name}, but there is "
                f"room for {format_bytes(absence.room)} in {ops[absence.tightest].name}")

    def moved(self) -> Iterator[Decision]:
        for moved in self._explained.moved:
            tensor = self._tensors[moved.storage]
            maker = self._maker.get(moved.storage)
            kind = tensor.role if maker is None else self._ops[maker].type
            origin = Origin() if maker is None else self._origins[maker]
            yield Decision("moved", tensor.name, kind, origin.layer, origin.line, tensor.bytes,
                           moved.times_back, moved.copies / self._whole,
                           f"copies run beside ops, which wait {moved.waited / self._whole:.2%} "
                           f"of the time of keep-all for them")

    def kept(self, plan: Plan, lives: Sequence[Life]) -> Iterator[Decision]:
        readers = self._last_readers()
        for life in kept_lives(self._ops, plan, self._explained, lives):
            op, origin = self._ops[life.op], self._origins[life.op]
            yield Decision("kept", self._tensors[life.tensor].name, op.type, origin.layer,
                           origin.line, life.bytes, 0, 0.0,
                           f"{self._read_by(readers.get(life.tensor))}; to make it again takes "
                           f"{op.cost / self._whole:.2%} of the time of keep-all, and what "
                           f"{op.name} reads")

    def _last_readers(self) -> dict[int, int]:
        """By storage, the op that reads it last in the order of the graph."""
        found = {}
        for number, op in enumerate(self._ops):
            for tensor in op.inputs:
                base = self._tensors[tensor].alias_of
                found[tensor if base is None else base] = number
        return found

    def _read_by(self, reader: int | None) -> str:
        if reader is None:
            return "a result of the step"
        return f"read by {self._ops[reader].name} ({self._ops[reader].phase})"
