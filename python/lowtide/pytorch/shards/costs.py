"""How long collectives take on a group, and what else a step takes because of other ranks."""

from __future__ import annotations

import dataclasses
import json

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
class CollectiveCosts:
    """``by_start``: by the op that starts a collective. ``crowding``: how many times as long as
    alone ops take while all ranks compute. In seconds: ``meeting``, of all ranks, by which a pass
    begins; ``per_parameter``, for one that is a DTensor and its gradient, outside the graph.
    ``coalesced_bytes``: of the largest tensor that is sent sooner within a message of several, for
    which it is copied, than in one of its own."""

    by_start: dict[str, CollectiveCost]
    crowding: float = 1.0
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
            op["cost"] *= self.crowding
            if op["type"] in self.by_start:
                made = tensors[op["outputs"][0]]["bytes"]
                op["cost"] += MICROSECONDS * self.by_start[op["type"]].of(made, len(op["inputs"]))
        return Graph.parse(json.dumps(document), f"the graph of {measured.name}")

    def outside(self, placed_parameters: int) -> float:
        """What a step with so many DTensors takes beside its ops, as costs are counted."""
        return MICROSECONDS * (_MEETINGS * self.meeting + placed_parameters * self.per_parameter)
