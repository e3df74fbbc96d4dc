"""In which order values are worth being held in fewer bits."""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from ... import Graph, Plan
from ..capture import storages_of
from ..stash import Stash
from .region import Region

#: It stands for an op of the backward pass, which goes.
_PASS_BY_BITS = "lowtide::pass_by_bits"


class StashOrder:
    """Which stashes of a step save the most for the time that they take, those without loss before
    others.

    ``plain``: the region of the step without stashes; ``added``: by stash, the time that it takes;
    ``limit_bytes``: what the step may take, which keeps more where it keeps all values.
    """

    def __init__(self, plain: Region, added: Mapping[str, float], limit_bytes: int):
        self._added, self._held = added, _HeldBytes(plain, limit_bytes)
        self._lacking = plain.priced.keep_all_peak_bytes - limit_bytes

    def by_price(self, stashes: Sequence[Stash]) -> list[Stash]:
        """Those first that take the least time for their bytes, times the ops that run while they
        are held and more than the limit is; those that save nothing so come last."""
        def price(stash: Stash) -> tuple[bool, bool, float]:
            saved = _saved_bytes(stash) * self._held.exceeding_while_held(stash)
            return not stash.is_exact, not saved, self._added[stash.name] / max(1, saved)

        return sorted(stashes, key=price)

    def enough(self, stashes: Sequence[Stash]) -> list[Stash]:
        """Of those that are held at the peak of a step which keeps all values, the first, of the
        least time for a byte, that save what is lacking there."""
        def price(stash: Stash) -> tuple[bool, float]:
            return not stash.is_exact, self._added[stash.name] / _saved_bytes(stash)

        chosen, saved = [], 0
        for stash in sorted(filter(self._held.at_peak, stashes), key=price):
            if saved >= self._lacking:
                break
            chosen.append(stash)
            saved += _saved_bytes(stash)
        return chosen


def _saved_bytes(stash: Stash) -> int:
    return stash.whole_bytes - stash.held_bytes


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


class _HeldBytes:
    """What a step that keeps all values takes, by op."""

    def __init__(self, plain: Region, limit_bytes: int):
        graph = plain.priced.graph
        self._storages, self._numbers = storages_of(graph), _numbers(plain)
        self._region, self._boundary = plain, plain.captured.boundary
        self._readers: defaultdict[int, list[int]] = defaultdict(list)
        for number, op in enumerate(graph.ops):
            for index in {self._storages[index] for index in (*op.inputs, *op.outputs)}:
                self._readers[index].append(number)
        held = self._by_op(graph)
        self._peak = max(range(len(held)), key=held.__getitem__)
        self._before = [0]
        for number in range(len(graph.ops)):
            self._before.append(self._before[-1] + (held[number] > limit_bytes))

    def exceeding_while_held(self, stash: Stash) -> int:
        """How many ops at which it takes more than the limit run while the value is held."""
        last, first = self._ends(stash)
        return self._before[first] - self._before[min(last + 1, first)]

    def at_peak(self, stash: Stash) -> bool:
        """Whether the value is held where it takes the most."""
        last, first = self._ends(stash)
        return last < self._peak < first

    def _ends(self, stash: Stash) -> tuple[int, int]:
        """The last op of the forward pass that reads the value, and the first one of the backward
        pass."""
        value, place = _op_of(stash.value)
        op = self._region.priced.graph.ops[self._numbers[value]]
        users = self._readers[self._storages[op.outputs[place]]]
        last = max(number for number in users if number < self._boundary)
        first = min((number for number in users if number > self._boundary), default=last)
        return last, first

    def _by_op(self, graph: Graph) -> list[int]:
        """Residents included."""
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
