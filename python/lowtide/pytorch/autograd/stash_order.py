"""In which order values are worth being held in fewer bits."""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from ... import Plan
from ..capture import storages_of
from ..stash import Stash
from .region import Region

#: It stands for an op of the backward pass, which goes.
_PASS_BY_BITS = "lowtide::pass_by_bits"


def by_price(stashes: Sequence[Stash], plain: Region, added: Mapping[str, float],
             limit_bytes: int) -> list[Stash]:
    """Those first that take the least time for what they save, without loss before others.

    What one saves is its bytes, times the ops that run while it is held and a step which keeps all
    values exceeds ``limit_bytes``; those that save nothing so come last. ``plain``: the step
    without stashes; ``added``: by stash, the time that it takes.
    """
    exceeding = _Exceeding(plain, limit_bytes)

    def price(stash: Stash) -> tuple[bool, bool, float]:
        saved = (stash.whole_bytes - stash.held_bytes) * exceeding.while_held(stash)
        return not stash.is_exact, not saved, added[stash.name] / max(1, saved)

    return sorted(stashes, key=price)


def added_costs(plain: Region, whole: Region) -> dict[str, float]:
    """By stash: what a step takes longer with it. ``whole``: the region with all of them."""
    costs: defaultdict[str, float] = defaultdict(float)
    for number, op in enumerate(whole.priced.graph.ops):
        costs[_stash_of(whole, number)] += op.cost
    numbers = _numbers(plain)
    for stash in whole.stashes:
        for passing in stash.passing:
            costs[stash.name] -= plain.priced.graph.ops[numbers[passing.reader]].cost
    return {stash.name: costs[stash.name] for stash in whole.stashes}


def made_once(region: Region, plan: Plan) -> list[Stash]:
    """The stashes that the plan makes in the forward pass and holds. The others are of no use: what
    they are made of is there again in the backward pass."""
    runs = Counter(action[1] for action in plan.actions if action[0] == "run")
    boundary = region.captured.boundary
    again = {_stash_of(region, op) for op, count in runs.items() if op < boundary and count > 1}
    once = {name for op in runs if (name := _stash_of(region, op))} - again
    return [stash for stash in region.stashes if stash.name in once]


class _Exceeding:
    """The ops at which a step that keeps all values takes more than so many bytes."""

    def __init__(self, plain: Region, limit_bytes: int):
        graph = plain.priced.graph
        self._storages, self._numbers = storages_of(graph), _numbers(plain)
        self._region, self._boundary = plain, plain.captured.boundary
        self._readers: defaultdict[int, list[int]] = defaultdict(list)
        for number, op in enumerate(graph.ops):
            for index in {self._storages[index] for index in (*op.inputs, *op.outputs)}:
                self._readers[index].append(number)
        held = self._held_bytes(graph)
        self._before = [0]
        for number in range(len(graph.ops)):
            self._before.append(self._before[-1] + (held[number] > limit_bytes))

    def while_held(self, stash: Stash) -> int:
        """How many of them are between the last op of the forward pass that reads the value and the
        first one of the backward pass."""
        value, place = _op_of(stash.value)
        op = self._region.priced.graph.ops[self._numbers[value]]
        users = self._readers[self._storages[op.outputs[place]]]
        last = max(number for number in users if number < self._boundary)
        first = min((number for number in users if number > self._boundary), default=last)
        return self._before[first] - self._before[min(last + 1, first)]

    def _held_bytes(self, graph) -> list[int]:
        """By op: what is there while it runs, residents included."""
        changes = [0] * (len(graph.ops) + 1)
        results = {self._storages[index] for index in graph.outputs}
        for index, users in self._readers.items():
            if graph.tensors[index].kind != "resident":
                end = len(graph.ops) if index in results else users[-1] + 1
                changes[users[0]] += graph.tensors[index].bytes
                changes[end] -= graph.tensors[index].bytes
        held, now = [], graph.resident_bytes
        for op, change in zip(graph.ops, changes):
            now += change
            held.append(now + op.workspace_bytes)
        return held


def _numbers(region: Region) -> dict[fx.Node | None, int]:
    return {node: number for number, node in enumerate(region.captured.nodes)}


def _op_of(value: fx.Node) -> tuple[fx.Node, int]:
    """The op that makes a value, and the value's place among its tensors."""
    if value.target is not operator.getitem:
        return value, 0
    op, position = value.args
    return op, sum(isinstance(result, torch.Tensor) for result in op.meta["val"][:position])


def _stash_of(region: Region, op: int) -> str:
    """The name of the stash that an op was added for, "" of others."""
    node = region.captured.nodes[op]
    return "" if node is None else node.meta.get("stash", "")
