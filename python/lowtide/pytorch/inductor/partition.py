"""A partitioner for Inductor: splits a joint graph by a plan within a budget."""

from __future__ import annotations

import uuid

from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from ... import InfeasibleError, Planned, frontier, plan
from ..capture import Captured, from_joint
from .estimate import priced
from .split import split
from .whole import Whole, whole, with_updates


class PlannedPartition(CustomPartitionerFn):
    """``torch._inductor.config.custom_partitioner_fn`` that keeps a budget.

    ``budget`` as ``lowtide.plan`` takes it; the bytes are those of parameters, buffers, inputs and all
    values of the step, gradients among them. Once a training step was compiled, ``found`` is what was
    planned and ``executions`` what of it runs, None for the boundary. ``or_smallest``: where no plan is within the budget, the smallest plan takes its place;
    otherwise InfeasibleError is raised.
    """

    def __init__(
        self, budget: int | str, *, strategy: str | None = None, time_limit: float = 10.0,
        or_smallest: bool = False,
    ):
        self._budget, self._strategy, self._time_limit = budget, strategy, time_limit
        self._or_smallest = or_smallest
        self._identity = uuid.uuid4().hex
        self.found: Planned | None = None
        self.executions: list[fx.Node | None] = []

    def uuid(self) -> str:
        """Of this object: a compiled graph from a cache would leave ``found`` unset."""
        return self._identity

    def __deepcopy__(self, _memo) -> PlannedPartition:
        """Itself: PyTorch copies its configuration for its cache keys, and a plan is no part of it."""
        return self

    def __call__(
        self, gm: fx.GraphModule, joint_inputs, *, num_fwd_outputs: int,
        static_lifetime_input_indices: list[int] | None = None, **_,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        with functorch_config.patch(activation_memory_budget=1.0):
            halves = min_cut_rematerialization_partition(
                gm, joint_inputs, num_fwd_outputs=num_fwd_outputs,
                static_lifetime_input_indices=static_lifetime_input_indices)
        planned = whole(gm, halves, num_fwd_outputs)
        captured = _capture(planned, static_lifetime_input_indices or [])
        self.found = self._plan(captured)
        self.executions = _executions(captured, self.found)
        forward, backward = split(planned.joint, self.executions, planned.num_fwd_outputs)
        return with_updates(forward, planned), backward

    def _plan(self, captured):
        graph = priced(captured)
        found = plan(graph, self._budget, self._strategy, time_limit=self._time_limit)
        if found.plan is not None:
            return found
        if not self._or_smallest:
            raise InfeasibleError(found.message)
        return self._smallest(graph)

    def _smallest(self, graph):
        """The plan that takes least of those that the strategy finds in its time."""
        points = frontier(graph, 2, self._strategy, time_limit=self._time_limit).points
        return next(found for found in reversed(points) if found.plan is not None)


def _executions(captured, found):
    return [captured.nodes[action[1]] for action in found.plan.actions if action[0] == "run"]


def _capture(planned: Whole, static: list[int]) -> Captured:
    primals = [node for node in planned.joint.graph.find_nodes(op="placeholder")
               if node.target.startswith("primals_")]
    targets = [node.target for node in primals]
    return from_joint(
        planned.joint, planned.num_fwd_outputs, name="inductor",
        primal_roles=["parameter" if i in set(static) else "input" for i in range(len(primals))],
        primal_names=targets, updated=[targets.index(target) for target in planned.updated])
