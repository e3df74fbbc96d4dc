"""How long each value of a plan is in memory, what it is, and where it lies."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from .. import Graph, Op, Plan, Tensor, _core


class Content(enum.Enum):
    """What memory holds. The values are shown to people, in this order from the bottom."""

    BESIDE = "held beside this graph"
    PARAMETERS = "parameters"
    STATE = "optimizer state"
    OTHERS = "batch and buffers"
    GRADIENTS = "gradients of parameters"
    ACTIVATIONS = "activations"
    AGAIN = "activations made again"
    BACKWARD = "values of the backward pass"
    UPDATE = "values of the update"
    MOVED = "moved back from slower memory"
    WORKSPACE = "workspace"


_OF_PHASE = {"forward": Content.ACTIVATIONS, "backward": Content.BACKWARD,
             "optimizer": Content.UPDATE}


_OF_RESIDENTS = {"parameters": Content.PARAMETERS, "optimizer state": Content.STATE}


class Life(NamedTuple):
    """From the action ``begin`` until before ``end``. ``tensor``: None for the workspace of ``op``,
    which made it; ``op``: None for what a copy brought. ``offset``: in the arena, behind the
    residents; None for a plan without addresses."""

    begin: int
    end: int
    tensor: int | None
    op: int | None
    bytes: int
    content: Content
    offset: int | None


def lives(graph: Graph, plan: Plan, again: Set[int] = frozenset()) -> list[Life]:
    """Those of values and workspaces with bytes, in the order in which they end. Residents that
    stay are not among them. ``plan`` is valid. ``again``: ops that compute what others did."""
    return list(_Walk(graph, plan, again).lives())


def name_of(life: Life, ops: Sequence[Op], tensors: Sequence[Tensor]) -> str:
    if life.tensor is not None:
        return tensors[life.tensor].name
    return f"workspace of {ops[life.op].name}"


def resident_bytes(explained: _core.Explanation) -> dict[Content, int]:
    """Of those that stay in memory."""
    found = dict.fromkeys([*_OF_RESIDENTS.values(), Content.OTHERS], 0)
    for what, size in explained.residents:
        found[_OF_RESIDENTS.get(what, Content.OTHERS)] += size
    return found


class _Walk:
    """Goes through the actions of a plan."""

    def __init__(self, graph: Graph, plan: Plan, again: Set[int]):
        self._plan = plan
        self._tensors, self._ops = graph.tensors, graph.ops
        self._bytes = [tensor.bytes for tensor in self._tensors]
        self._storage = [index if tensor.alias_of is None else tensor.alias_of
                         for index, tensor in enumerate(self._tensors)]
        self._gradients = {self._storage[index] for index, tensor in enumerate(self._tensors)
                           if tensor.role == "gradient"}
        self._offsets = _offsets(plan)
        self._begun: dict[int, tuple[int, int | None, Content, int | None]] = {}
        self._ran = set(again)

    def lives(self) -> Iterator[Life]:
        for at, action in enumerate(self._plan.actions):
            verb, index = action[0], action[1]
            if verb == "run":
                yield from self._run(at, index, action[2] if len(action) > 2 else ())
            elif verb == "free":
                yield from self._end(self._storage[index], at)
            elif verb == "prefetch":
                self._begin(self._storage[index], at, None, Content.MOVED)
        for storage in list(self._begun):
            yield from self._end(storage, len(self._plan.actions))

    def _run(self, at: int, number: int, in_place) -> Iterator[Life]:
        op = self._ops[number]
        inputs = dict(op.inplace) if in_place else {}
        taken = {}
        for position in in_place:
            source = self._storage[op.inputs[inputs[position]]]
            taken[op.outputs[position]] = self._begun[source][3]
            yield from self._end(source, at)
        for tensor in op.outputs:
            if self._storage[tensor] == tensor:
                self._begin(tensor, at, number, self._content(tensor, number), taken.get(tensor))
        self._ran.add(number)
        if op.workspace_bytes:
            offset = self._offsets.get((at, "w", number))
            yield Life(at, at + 1, None, number, op.workspace_bytes, Content.WORKSPACE, offset)

    def _content(self, storage: int, number: int) -> Content:
        if storage in self._gradients:
            return Content.GRADIENTS
        return Content.AGAIN if number in self._ran else _OF_PHASE[self._ops[number].phase]

    def _begin(self, storage: int, at: int, op: int | None, content: Content,
               offset: int | None = None) -> None:
        self._begun[storage] = at, op, content, self._offsets.get((at, "t", storage), offset)

    def _end(self, storage: int, at: int) -> Iterator[Life]:
        begin, op, content, offset = self._begun.pop(storage)
        if self._bytes[storage]:
            yield Life(begin, at, storage, op, self._bytes[storage], content, offset)


def _offsets(plan: Plan) -> dict[tuple[int, str, int], int]:
    """By action, "t" or "w", and tensor or op: as docs/reference/plan-format.md has them."""
    listed = json.loads(plan.format()).get("offsets") or []
    return {(action, what, index): offset
            for action, placed in listed for what, index, offset in placed}
