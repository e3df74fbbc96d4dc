"""The captured graph by kernels: ops that are computed inside a kernel join their readers.

Inductor computes most pointwise values inside the kernels that read them, where they take no memory
and no traffic. Planned op by op each would have its own storage, and a plan would pay for what no
kernel writes. Here an op is what one kernel computes: it reads what lies in memory, and makes what
does not on the way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from torch import fx

from .... import Graph
from ...capture import Captured
from ...capture.in_place import choose_pairs, permitted_pairs
from ...joint_graph.views import is_view
from ..predict.estimate import group_cost, is_inlined
from ..predict.materialized import materialized
from ..predict.nodes import is_pointwise, is_random, source
from ..predict.products import kernel_cost

#: Nodes that one op of a plan runs, in order; the last is what the op makes.
Group = tuple[fx.Node, ...]


@dataclass(frozen=True)
class KernelGroups:
    """A graph to plan, with estimated costs, and by op the nodes that it runs; None for the
    boundary between forward and backward."""

    graph: Graph
    groups: tuple[Group | None, ...]

    def executions(self, ops: Iterable[int]) -> Iterator[fx.Node | None]:
        """The nodes that run when the ops do, in that order.

        What is inside a kernel runs once for all kernels of a half that read it, as Inductor
        computes it in each of them anyway, until something that it is made of runs again.
        """
        runs: dict[fx.Node, int] = {}
        made_of: dict[fx.Node, list[int]] = {}
        for group in (self.groups[op] for op in ops):
            if group is None:
                made_of.clear()
                yield None
                continue
            for node in group:
                reads = [runs.get(source(read), 0) for read in node.all_input_nodes]
                if node is not group[-1] and made_of.get(node) == reads:
                    continue
                made_of[node] = reads
                runs[node] = runs.get(node, 0) + 1
                yield node


def group_kernels(captured: Captured) -> KernelGroups:
    """The captured graph by kernels.

    An op that draws random numbers is one of its own and runs once: compiled code cannot draw the
    same ones again. (What Inductor computes from a seed is no such op, only the seed is.)
    """
    document = json.loads(captured.graph.format())
    graph = next(node for node in captured.nodes if node is not None).graph
    inside = _Inside(document["tensors"], materialized(graph))
    ops, groups = [], []
    for op, node in zip(document["ops"], captured.nodes, strict=True):
        if node is not None and inside.takes(op, node):
            continue
        ops.append(op)
        groups.append(node if node is None else _price(op, inside.group(op, node), document))
    document["ops"] = ops
    choose_pairs(ops, document["tensors"], document["outputs"])
    _drop(document, inside.tensors)
    return KernelGroups(Graph.parse(json.dumps(document)), tuple(groups))


class _Inside:
    """What no kernel writes to memory: by tensor the nodes that make it, and what they read.

    ``stored``: what kernels could compute inside and do not.
    """

    def __init__(self, tensors: Sequence[dict], stored: Set[fx.Node]):
        self._records, self._stored = tensors, stored
        self._cones: dict[int, dict[fx.Node, None]] = {}
        self._leaves: dict[int, dict[int, None]] = {}

    @property
    def tensors(self) -> set[int]:
        return set(self._cones)

    def takes(self, op: dict, node: fx.Node) -> bool:
        """Takes in an op that is computed inside those that read it, or a view of one."""
        views = is_view(node) and any(tensor in self._cones for tensor in op["inputs"])
        if not views and (is_random(node) or not is_inlined(node, self._stored)):
            return False
        cone = {**self._of(op, self._cones), node: None}
        leaves = self._read(op)
        for tensor in op["outputs"]:
            self._cones[tensor], self._leaves[tensor] = cone, leaves
        return True

    def group(self, op: dict, node: fx.Node) -> Group:
        """The nodes that an op in memory runs, which then reads what they are made of."""
        cone = self._of(op, self._cones)
        if cone:
            leaves = list(self._read(op))
            op.update(inputs=leaves, inplace=[])
            del op["args"]
            if is_pointwise(node) and not any(map(is_view, cone)):
                op["inplace"] = permitted_pairs(op, self._records)
            if not op["inplace"]:
                del op["inplace"]
        return (*cone, node)

    def _read(self, op) -> dict[int, None]:
        found: dict[int, None] = {}
        for tensor in op["inputs"]:
            found.update(self._leaves.get(tensor, {tensor: None}))
        return found

    def _of(self, op, known) -> dict:
        found: dict = {}
        for tensor in op["inputs"]:
            found.update(known.get(tensor, {}))
        return found


def _price(op: dict, group: Group, document: dict) -> Group:
    op["cost"], op["cost_estimated"] = group_cost(group), True
    op["workspace_bytes"] = kernel_cost(group[-1]).scratch_bytes
    if op.get("random", False):
        op["recomputable"] = False
    return group


def _drop(document: dict, tensors: set[int]) -> None:
    """Takes tensors that nothing mentions out of a document."""
    kept = [index for index in range(len(document["tensors"])) if index not in tensors]
    new = {old: index for index, old in enumerate(kept)}
    document["tensors"] = [document["tensors"][index] for index in kept]
    for record in document["tensors"]:
        for key in ("alias_of", "gradient_of"):
            if key in record:
                record[key] = new[record[key]]
    for op in document["ops"]:
        for key in ("inputs", "outputs"):
            op[key] = [new[tensor] for tensor in op[key]]
    document["outputs"] = [new[tensor] for tensor in document["outputs"]]
