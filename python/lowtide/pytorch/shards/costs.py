"""How long collectives take on a group, and what else a step takes because of other ranks."""

from __future__ import annotations

import dataclasses
import json
import math

from ... import Graph

#: In a second, the unit of costs.
MICROSECONDS = 1e6

#: In which all ranks meet in a usual step: at its begin, and before its backward pass.
_MEETINGS = 2


@dataclasses.dataclass(frozen=True)
class LineOfBytes:
    """Seconds by the bytes that a collective makes, and by how many tensors it is of:
    ``per_tensor`` for each but the first."""

    latency: float
    per_byte: float
    per_tensor: float = 0.0

    def of(self, made_bytes: int, tensors: int = 1) -> float:
        return self.latency + (tensors - 1) * self.per_tensor + self.per_byte * made_bytes


@dataclasses.dataclass(frozen=True)
class CollectiveCost:
    """Beside what its ops take without communication. ``alone``: until it is over, when nothing
    else is done. ``beside``: by how much other ops between its start and its wait take longer, as
    it takes the processors that they need."""

    alone: LineOfBytes
    beside: LineOfBytes

    def of(self, made_bytes: int, tensors: int = 1) -> float:
        return self.alone.of(made_bytes, tensors)

    def hidden(self, made_bytes: int, tensors: int = 1) -> float:
        """What ops hide of it at most."""
        alone = self.alone.of(made_bytes, tensors)
        return max(0.0, alone - self.beside.of(made_bytes, tensors))


@dataclasses.dataclass(frozen=True)
class Crowding:
    """How many times as long as alone an op takes while all ranks run ops: ``computing``, of one
    that computes in caches of its own; ``streaming``, of one that only reads and writes memory,
    ``bytes_per_second`` alone, as ranks share the way to it."""

    computing: float = 1.0
    streaming: float = 1.0
    bytes_per_second: float = math.inf

    def of(self, seconds: float, moved_bytes: int) -> float:
        """Of an op that takes so long alone: it streams for as long as its bytes take, and computes
        the rest of its time."""
        if seconds <= 0.0:
            return 1.0
        streams = min(1.0, moved_bytes / (self.bytes_per_second * seconds))
        return self.computing + streams * (self.streaming - self.computing)


@dataclasses.dataclass(frozen=True)
class CollectiveCosts:
    """``by_start``: by the op that starts a collective. ``crowding``: of other ops, while all ranks
    run them. In seconds: ``meeting``, of all ranks, by which a pass begins; ``per_parameter``, for
    one that is a DTensor and its gradient, outside the graph. ``coalesced_bytes``: of the largest
    tensor that is sent sooner within a message of several, for which it is copied, than in one of
    its own."""

    by_start: dict[str, CollectiveCost]
    crowding: Crowding = Crowding()
    meeting: float = 0.0
    per_parameter: float = 0.0
    coalesced_bytes: int = 0

    def added_to(self, measured: Graph) -> Graph:
        """A graph whose ops were measured on one rank and without communication, with what others
        add: its time is in the op that starts it, so that a plan does not start what nobody waits
        for."""
        document = json.loads(measured.format())
        tensors = document["tensors"]
        for op in document["ops"]:
            moved = sum(tensors[one]["bytes"] for one in {*op["inputs"], *op["outputs"]})
            op["cost"] *= self.crowding.of(op["cost"] / MICROSECONDS, moved)
            if op["type"] in self.by_start:
                made = tensors[op["outputs"][0]]["bytes"]
                op["cost"] += MICROSECONDS * self.by_start[op["type"]].of(made, len(op["inputs"]))
        return Graph.parse(json.dumps(document), f"the graph of {measured.name}")

    def outside(self, placed_parameters: int, moves: bool = False) -> float:
        """What a step with so many DTensors takes beside its ops, as costs are counted. ``moves``:
        whether ranks meet once more, as values move and there may be no room for them."""
        meetings = _MEETINGS + moves
        return MICROSECONDS * (meetings * self.meeting + placed_parameters * self.per_parameter)
