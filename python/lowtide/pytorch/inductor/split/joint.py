"""A joint graph that AOTAutograd wants split, and the ways to split it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from .... import InputError, Plan
from ...budget.memory import storage_bytes
from ...capture import describe_primals, from_joint
from ...joint_graph.primals import placeholders
from ..predict.nodes import is_random
from .kernel_groups import KernelGroups, group_kernels
from .merge_halves import MergedHalves, merge_halves, updates, with_updates
from .split import split
from .torch_splits import TorchSplits

Halves = tuple[fx.GraphModule, fx.GraphModule]


@dataclass(frozen=True)
class KernelGraph:
    """Two halves as one graph, and the kernels of it, which can be planned."""

    merged: MergedHalves
    kernels: KernelGroups


class Joint:
    """A joint graph, and what else AOTAutograd tells a partitioner.

    ``static``: which primals stay where they are from step to step, as parameters do.
    ``described``: as of ``describe_inputs``, where the graph is one that Dynamo traced. Raises
    InputError for dynamic shapes.
    """

    def __init__(self, module: fx.GraphModule, inputs: Sequence, num_fwd_outputs: int,
                 static: Sequence[int], described: list[tuple[str, str]] | None = None):
        _require_fixed_shapes(module)
        self._module, self._num_fwd_outputs, self._static = module, num_fwd_outputs, list(static)
        self._described = described
        self._torch_splits = TorchSplits(module, inputs, num_fwd_outputs, static)

    @functools.cached_property
    def resident_bytes(self) -> int:
        """Of parameters, buffers and inputs, each storage once."""
        values = [node.meta["val"] for node in placeholders(self._module, "primals")]
        return storage_bytes(value for value in values if isinstance(value, torch.Tensor))

    @functools.cached_property
    def result_bytes(self) -> int:
        """Of what the forward returns, beside them."""
        inputs = placeholders(self._module, "primals")
        returned = self._module.graph.output_node().args[0][:self._num_fwd_outputs]
        values = [node.meta["val"] for node in [*inputs, *returned] if isinstance(node, fx.Node)]
        return storage_bytes(value for value in values
                             if isinstance(value, torch.Tensor)) - self.resident_bytes

    @functools.cached_property
    def own_halves(self) -> Halves:
        """PyTorch's own split, which Inductor alone runs."""
        return self.torch_split(1.0)

    def torch_split(self, fraction: float) -> Halves:
        """PyTorch's own split with ``activation_memory_budget`` set to ``fraction``."""
        return self._torch_splits.split(fraction)

    def kernel_graph(self, halves: Halves) -> KernelGraph:
        """What ``halves`` run, to be planned further. Raises InputError for what cannot be."""
        return self._own_kernel_graph if halves is self.own_halves else self._kernel_graph(halves)

    @functools.cached_property
    def _own_kernel_graph(self) -> KernelGraph:
        """Plans begin with it, and each page compares with it."""
        return self._kernel_graph(self.own_halves)

    def _kernel_graph(self, halves: Halves) -> KernelGraph:
        both = merge_halves(self._module, halves, self._num_fwd_outputs)
        return KernelGraph(both, group_kernels(self._capture(both)))

    def split(self, kernel_graph: KernelGraph, plan: Plan) -> Halves:
        """The two graphs of a plan of ``kernel_graph.kernels.graph``."""
        ops = [action[1] for action in plan.actions if action[0] == "run"]
        return self.split_by(kernel_graph.merged, list(kernel_graph.kernels.executions(ops)))

    def split_by(self, both: MergedHalves, executions: Sequence[fx.Node | None]) -> Halves:
        """The two graphs of executions of ``both.joint``, None for the boundary."""
        forward, backward = split(both.joint, executions, both.num_fwd_outputs)
        return with_updates(forward, both), backward

    def _capture(self, both):
        targets = [node.target for node in placeholders(both.joint, "primals")]
        roles, names = self._roles_and_names(both.joint, targets)
        return from_joint(both.joint, both.num_fwd_outputs, name="inductor", primal_roles=roles,
                          primal_names=names, updated=[targets.index(t) for t in both.updated])

    def _roles_and_names(self, joint, targets):
        if self._described is not None:
            return describe_primals(joint, self._described)
        static = set(self._static)
        return ["parameter" if i in static else "input" for i in range(len(targets))], targets


def is_exact(halves: Halves) -> bool:
    """Whether the gradients are those without recomputation.

    PyTorch's split may draw random numbers again in the backward, which are others then, and may
    read there what the forward has overwritten.
    """
    forward, backward = halves
    drawn = [{node.name for node in half.graph.nodes if is_random(node)} for half in halves]
    overwritten = {update.args[0].name for update in updates(forward)}
    read = {node.name for node in backward.graph.find_nodes(op="placeholder")}
    return drawn[0].isdisjoint(drawn[1]) and overwritten.isdisjoint(read)


def _require_fixed_shapes(module):
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        sizes = value.shape if isinstance(value, torch.Tensor) else [value]
        if any(isinstance(size, torch.SymInt) for size in sizes):
            raise InputError(f"{node.name} depends on sizes that are not fixed; compile with "
                             "dynamic=False, a plan is for fixed shapes")
