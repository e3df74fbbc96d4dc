"""PyTorch's own partitioner, run for several budgets of one joint graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from unittest import mock

from torch import fx
from torch._functorch import config, partitioners
from torch.utils._ordered_set import OrderedSet


class TorchSplits:
    """PyTorch's splits of a joint graph.

    They share all minimum cuts but one and the estimates of what ops take, which is most of their
    work; what one has found is kept for the others, by the names of nodes, as each begins with a
    copy of the graph. Internals of PyTorch 2.13 are replaced meanwhile.
    """

    def __init__(self, module: fx.GraphModule, inputs: Sequence, num_fwd_outputs: int,
                 static: Sequence[int]):
        self._module, self._inputs = module, inputs
        self._num_fwd_outputs, self._static = num_fwd_outputs, list(static)
        self._solve, self._estimate = partitioners.solve_min_cut, partitioners.estimate_runtime
        self._cuts: dict[tuple, tuple[list[str], list[str]]] = {}
        self._runtimes: dict[str, float] = {}

    def split(self, fraction: float) -> tuple[fx.GraphModule, fx.GraphModule]:
        """With ``activation_memory_budget`` set to ``fraction``."""
        with config.patch(activation_memory_budget=fraction), \
                mock.patch.object(partitioners, "solve_min_cut", self._solved), \
                mock.patch.object(partitioners, "estimate_runtime", self._estimated):
            return partitioners.min_cut_rematerialization_partition(
                self._module, self._inputs, num_fwd_outputs=self._num_fwd_outputs,
                static_lifetime_input_indices=self._static)

    def _solved(self, graph, info, options, dont_ban=None):
        key = (dataclasses.astuple(options), frozenset(node.name for node in dont_ban or ()))
        if key not in self._cuts:
            saved, banned = self._solve(graph, info, options, dont_ban)
            self._cuts[key] = [node.name for node in saved], [node.name for node in banned]
        named = {node.name: node for node in graph.nodes}
        saved, banned = ([named[name] for name in names] for names in self._cuts[key])
        return saved, OrderedSet(banned)

    def _estimated(self, node):
        if node.name not in self._runtimes:
            self._runtimes[node.name] = self._estimate(node)
        return self._runtimes[node.name]
