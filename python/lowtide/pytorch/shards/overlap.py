"""Plans whose collectives run while other ops do.

A plan has each wait right behind its start, as the graph has them. Here starts move forward and
waits back, over ops that touch none of the memory in use by the collective. Addresses stay as they
are, so nothing takes more memory than the plan has. Copies to slower memory stay in their order.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from ... import Error, Graph, Plan, replay, verify
from ..capture.captured import BOUNDARY
from ..capture.updates import UPDATE
from .collectives import EXCHANGE_START, GATHER_STARTS, WAITS
from .costs import CollectiveCosts
from .step_time import overlapped_cost

#: Of an arena: the first byte and the one behind the last.
Range = tuple[int, int]


@dataclasses.dataclass(frozen=True)
class _Op:
    """Of a graph; tensors by their storages. ``written_over``: by position of an output, the input
    that it may be written over."""

    type: str
    inputs: list[int]
    outputs: list[int]
    written_over: dict[int, int]
    mutated: set[int]
    makes_views: bool
    workspace_bytes: int

    @property
    def touched(self) -> set[int]:
        return {*self.inputs, *self.outputs}

    def overwritten(self, in_place: Sequence[int]) -> set[int]:
        return {self.written_over[position] for position in in_place}


@dataclasses.dataclass(eq=False)
class _Action:
    """Of a plan. ``ranges``: of what a run or a load begins, its workspace included, or of what is
    freed."""

    verb: str
    index: int
    in_place: list[int]
    placements: list
    ranges: list[Range] = dataclasses.field(default_factory=list)


def overlapped(graph: Graph, plan: Plan, costs: CollectiveCosts) -> Plan:
    """The plan with its collectives started as early, and waited for as late, as memory allows.
    Where values move, only if it ends no later for that: copies that ops wait for may begin later.
    Raises Error for a plan that gives memory of a collective away before it is waited for."""
    if plan.arena_bytes is None or not any(op.type in WAITS for op in graph.ops):
        return plan
    schedule = _Schedule(graph, plan)
    schedule.leave_useless_out()
    orders = [schedule.plan()] if plan.slower_bytes else []
    schedule.start_early()
    schedule.wait_late()
    orders.append(schedule.plan())
    for found in orders:
        require_waits(graph, found)
        fault = verify(graph, found)
        if fault is not None:
            raise Error(f"the plan of {graph.name} is not valid with collectives in flight: "
                        f"{fault.message}")
    if len(orders) == 1:
        return orders[0]
    return min(orders, key=lambda found: overlapped_cost(graph, found, costs))


def require_waits(graph: Graph, plan: Plan) -> None:
    """Raises Error where the result of a collective ends, is copied or is written over before it is
    waited for, or is never waited for."""
    ops = _ops(graph)
    in_flight: dict[int, set[int]] = {}  # by the storage of a result, all that are in use
    for verb, index, *rest in plan.actions:
        if verb != "run":
            ended = {index}
        else:
            if ops[index].type in WAITS.values():
                in_flight.pop(ops[index].inputs[0], None)
            ended = ops[index].overwritten(*rest) if rest else set()
        for result, used in in_flight.items():
            if used & ended:
                raise Error(f"the plan of {graph.name} gives memory away that the collective uses "
                            f"which makes {graph.tensors[result].name}")
        if verb == "run" and ops[index].type in WAITS:
            sent = ops[index].inputs if ops[index].type == EXCHANGE_START else ()
            in_flight[ops[index].outputs[0]] = {*ops[index].outputs, *sent}
    if in_flight:
        raise Error(f"the plan of {graph.name} does not wait for a collective")


class _Schedule:
    """The actions of a plan, which move."""

    def __init__(self, graph: Graph, plan: Plan):
        self._graph, self._ops = graph, _ops(graph)
        self._bytes = [tensor.bytes for tensor in graph.tensors]
        self._document = json.loads(plan.format())
        placements = dict(map(tuple, self._document["offsets"]))
        self._actions = [
            _Action(verb, index, rest[0] if rest else [], placements.get(position, []))
            for position, (verb, index, *rest) in enumerate(self._document["actions"])]
        self._note_ranges()

    def leave_useless_out(self) -> None:
        """Gathers whose result ends before anything waits for it."""
        begun: dict[int, _Action] = {}  # by the storage of the result
        useless: set[_Action] = set()
        for action in self._actions:
            if self._is(action, GATHER_STARTS):
                begun[self._ops[action.index].outputs[0]] = action
            elif action.verb == "run":
                for storage in self._ops[action.index].inputs:
                    begun.pop(storage, None)
            elif action.verb == "free" and action.index in begun:
                useless.update((begun.pop(action.index), action))
        self._actions = [action for action in self._actions if action not in useless]

    def start_early(self) -> None:
        """Gathers read what is there from the start of a step. They stay in their order."""
        for action in [action for action in self._actions if self._is(action, GATHER_STARTS)]:
            first = position = self._actions.index(action)
            while first and self._may_start_before(action, self._actions[first - 1]):
                first -= 1
            self._actions.insert(first, self._actions.pop(position))

    def wait_late(self) -> None:
        """The last ones first, so that none is in the way of another."""
        waits = tuple(WAITS.values())
        for action in [action for action in reversed(self._actions) if self._is(action, waits)]:
            self._wait_late(action)

    def plan(self) -> Plan:
        document = dict(self._document)
        document["actions"] = [[action.verb, action.index, *([action.in_place] if action.in_place
                                                             else [])]
                               for action in self._actions]
        document["offsets"] = [[position, action.placements]
                               for position, action in enumerate(self._actions)
                               if action.placements]
        played = replay(self._graph, Plan.parse(json.dumps(document)))
        document["peak_bytes"], document["cost"] = played.peak_bytes, played.cost
        return Plan.parse(json.dumps(document))

    def _may_start_before(self, start: _Action, other: _Action) -> bool:
        op = self._ops[start.index]
        if _meet(other.ranges, start.ranges):
            return False
        if other.verb != "run":
            return other.index not in op.touched
        known = self._ops[other.index]
        # What waits for an earlier gather of the same shards ends its result, written over it.
        return (known.type != BOUNDARY and known.type not in WAITS
                and known.touched.isdisjoint(op.outputs)
                and op.touched.isdisjoint({*known.outputs, *known.mutated}))

    def _wait_late(self, wait: _Action) -> None:
        results, used = set(self._ops[wait.index].outputs), set(self._ops[wait.index].inputs)
        first = last = self._actions.index(wait)
        moved, held = [wait], list(wait.ranges)  # its scratch memory, wherever it runs
        for action in self._actions[first + 1:]:
            if action.verb == "free" and action.index in used | results:
                # Is freed when the wait is over; of results all readers have moved by now.
                moved.append(action)
                held += action.ranges
            elif self._only_updates(action, results):
                moved.append(action)
                held += action.ranges
                used |= self._ops[action.index].mutated
            elif self._only_views(action, results):
                moved.append(action)
            elif self._needs_the_end(action, results, used, held):
                break
            last += 1
        else:
            last = len(self._actions) - 1
        stretch = self._actions[first:last + 1]
        others = [action for action in stretch if action not in moved]
        self._actions[first:last + 1] = [*others, *moved]

    def _needs_the_end(self, action: _Action, results: set[int], used: set[int],
                       held: Sequence[Range]) -> bool:
        """Whether the action cannot come before the wait."""
        if action.verb != "run":
            return action.index in used | results or (
                action.verb != "free" and _meet(action.ranges, held))
        op = self._ops[action.index]
        return (op.type == BOUNDARY or bool(op.touched & results)
                or bool(op.overwritten(action.in_place) & used)
                or bool(op.touched & used) or _meet(action.ranges, held))

    def _only_updates(self, action: _Action, results: set[int]) -> bool:
        """A parameter, by a gradient that the wait makes. Nothing reads it afterwards."""
        op = self._ops[action.index] if action.verb == "run" else None
        return (op is not None and op.type == UPDATE
                and results.issuperset(set(op.inputs) - op.mutated))

    def _only_views(self, action: _Action, results: set[int]) -> bool:
        op = self._ops[action.index] if action.verb == "run" else None
        return op is not None and op.makes_views and results.issuperset(op.outputs)

    def _is(self, action: _Action, types: Sequence[str]) -> bool:
        return action.verb == "run" and self._ops[action.index].type in types

    def _note_ranges(self) -> None:
        at: dict[int, Range] = {}  # by storage, while it is live
        for action in self._actions:
            if action.verb == "free":
                action.ranges = [at.pop(action.index, (0, 0))]
            op = self._ops[action.index] if action.verb == "run" else None
            for position in action.in_place:
                at[op.outputs[position]] = at.pop(op.written_over[position])
            for kind, index, offset in action.placements:
                size = self._bytes[index] if kind == "t" else op.workspace_bytes
                action.ranges.append((offset, offset + size))
                if kind == "t":
                    at[index] = action.ranges[-1]


def _ops(graph: Graph) -> list[_Op]:
    aliases = [tensor.alias_of for tensor in graph.tensors]
    storage = [index if alias is None else alias for index, alias in enumerate(aliases)]
    found = []
    for op in graph.ops:
        inputs, outputs = op.inputs, op.outputs
        found.append(_Op(
            op.type, [storage[tensor] for tensor in inputs],
            [storage[tensor] for tensor in outputs],
            {output: storage[inputs[source]] for output, source in op.inplace},
            {storage[inputs[position]] for position in op.mutates},
            bool(outputs) and all(aliases[tensor] is not None for tensor in outputs),
            op.workspace_bytes))
    return found


def _meet(some: Sequence[Range], others: Sequence[Range]) -> bool:
    return any(first < end and begin < last for first, last in some for begin, end in others)
