"""What a file of another tool's format is made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

from .. import Graph, Op, Plan, Tensor, _core
from ..page.lives import Content, Life, lives, name_of, resident_bytes
from ..page.origins import Origin, origins_of_names
from ..page.report import require_valid
from ..page.schedule import lanes_of

#: Of a cost unit in a microsecond; a million flops are drawn as a microsecond.
_MICROSECONDS = {"us": 1.0, "ns": 1e-3, "flops": 1e-6}


@dataclasses.dataclass(frozen=True)
class ShownPlan:
    """A valid plan of a graph; ``origins``: by op. ``again``: ops of the backward pass that
    compute what the forward pass did."""

    graph: Graph
    plan: Plan
    origins: Sequence[Origin]
    again: frozenset[int] = frozenset()

    @classmethod
    def of_files(cls, graph: Graph, plan: Plan) -> ShownPlan:
        """Layers are those of the names of ops. Raises InputError for a plan that breaks a rule."""
        require_valid(graph, plan)
        return cls(graph, plan, origins_of_names(graph.ops))

    @cached_property
    def ops(self) -> Sequence[Op]:
        return self.graph.ops

    @cached_property
    def tensors(self) -> Sequence[Tensor]:
        return self.graph.tensors

    @cached_property
    def lives(self) -> list[Life]:
        return lives(self.graph, self.plan, self.again)

    @cached_property
    def lanes(self) -> list[str]:
        """As of ``lanes_of``."""
        return lanes_of(self.graph, self.plan, self.again)

    @cached_property
    def explained(self) -> _core.Explanation:
        return _core.explanation(self.graph, self.plan)

    @cached_property
    def residents(self) -> dict[Content, int]:
        """Bytes of those that stay in memory."""
        return resident_bytes(self.explained)

    @cached_property
    def moments(self) -> list[tuple[float, float, float]]:
        """As of ``_core.timeline``, in microseconds."""
        return [(self._time(reached), self._time(begin), self._time(end))
                for reached, begin, end in _core.timeline(self.graph, self.plan)]

    @cached_property
    def reached(self) -> list[float]:
        """Microseconds, by action, and of the end."""
        return [*(reached for reached, _, _ in self.moments), self._time(self.plan.cost)]

    def name_of(self, life: Life) -> str:
        return name_of(life, self.ops, self.tensors)

    def _time(self, cost: float) -> float:
        return cost * _MICROSECONDS[self.graph.cost_unit]
