"""A partitioner for Inductor: splits a joint graph by a plan within a budget."""

from __future__ import annotations

import uuid

from torch import fx
from torch._functorch import config as functorch_config
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from ... import InfeasibleError, Planned, plan, structural_floor_bytes
from ..capture import Captured, from_joint
from .estimate import priced
from .split import split
from .whole import Whole, whole, with_updates


#: The smallest plan is found to 1/32 of what lies between the floor and keeping all.
HALVINGS = 5


class PlannedPartition(CustomPartitionerFn):
    """``torch._inductor.config.custom_partitioner_fn`` that keeps a budget.

    ``budget`` as ``lowtide.plan`` takes it; the bytes are those of parameters, buffers, inputs and
    all values of the step, gradients among them. Once a training step was compiled, ``found`` is
    what was planned and ``executions`` what of it runs, None for the boundary. ``or_smallest``:
    where no plan is within the budget, the smallest plan takes its place; otherwise InfeasibleError
    is raised.
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
        """Itself: PyTorch copies its configuration for cache keys, which a plan is no part of."""
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
        self.executions = self.choose(captured)
        forward, backward = split(planned.joint, self.executions, planned.num_fwd_outputs)
        return with_updates(forward, planned), backward

    def choose(self, captured: Captured) -> list[fx.Node | None]:
        """What is to run, None for the boundary: the executions of a plan within the budget."""
        graph = priced(captured)
        self.found = self._within(graph, self._budget)
        if self.found.plan is None and self._or_smallest:
            self.found = self._smallest(graph, self.found.budget_bytes)
        if self.found.plan is None:
            raise InfeasibleError(self.found.message)
        return _executions(captured, self.found.plan)

    def _smallest(self, graph, too_small):
        """The smallest plan that halving finds between a budget without one and keeping all."""
        best = self._within(graph, "100%")
        low = max(too_small, structural_floor_bytes(graph) - 1)
        for _ in range(HALVINGS):
            found = self._within(graph, (low + best.plan.peak_bytes) // 2)
            if found.plan is None:
                low = found.budget_bytes
            else:
                best = found
        return best

    def _within(self, graph, budget):
        return plan(graph, budget, self._strategy, time_limit=self._time_limit)


def _executions(captured, chosen):
    return [captured.nodes[action[1]] for action in chosen.actions if action[0] == "run"]


def _capture(planned: Whole, static: list[int]) -> Captured:
    primals = [node for node in planned.joint.graph.find_nodes(op="placeholder")
               if node.target.startswith("primals_")]
    targets = [node.target for node in primals]
    return from_joint(
        planned.joint, planned.num_fwd_outputs, name="inductor",
        primal_roles=["parameter" if i in set(static) else "input" for i in range(len(primals))],
        primal_names=targets, updated=[targets.index(target) for target in planned.updated])
