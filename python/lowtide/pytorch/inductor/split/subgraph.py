"""Builds one of the two graphs that a joint graph is split into."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from .... import InputError
from ..predict.nodes import results


class Subgraph:
    """Copies of a joint graph's nodes, in order; ``tag`` says on which side they are.

    What runs again is a copy with a name of its own (``relu_again_1``), and what reads it reads
    the latest.
    """

    def __init__(self, tag: str):
        self.graph = fx.Graph()
        self._tag = tag
        self._inputs = {}
        self._latest = {}
        self._runs = {}

    def inputs(self, nodes: Sequence[fx.Node]) -> None:
        for node in nodes:
            copy = self.graph.placeholder(node.name)
            copy.meta = dict(node.meta)
            self._inputs[node] = self._latest[node] = copy

    def passed(self, nodes: Sequence[fx.Node]) -> None:
        """Counts executions of the other half, so that names tell that a node runs again."""
        for node in nodes:
            self._runs[node] = self._runs.get(node, 0) + 1

    def run(self, nodes: Sequence[fx.Node]) -> None:
        for node in nodes:
            again = self._runs.get(node, 0)
            self._runs[node] = again + 1
            for result in results(node):
                self._copy(result, f"{result.name}_again_{again}" if again else result.name)

    def finish(self, values: Sequence, descriptions: Sequence) -> None:
        """Returns the values, and leaves out what none of them needs."""
        returned = tuple(self._read(v) if isinstance(v, fx.Node) else v for v in values)
        output = self.graph.output(returned)
        output.meta["desc"] = descriptions
        output.meta["output_stack_traces"] = [
            v.meta.get("stack_trace") if isinstance(v, fx.Node) else None for v in returned]
        self.graph.eliminate_dead_code()
        self.graph.lint()

    def drop_if_unused(self, node: fx.Node) -> bool:
        """Whether an input is read; one that is not is taken out."""
        if self._inputs[node].users:
            return True
        self.graph.erase_node(self._inputs[node])
        return False

    def _copy(self, node, name):
        copy = self.graph.create_node(
            node.op, node.target, fx.map_arg(node.args, self._read),
            fx.map_arg(node.kwargs, self._read), name, node.type)
        copy.meta = {**node.meta, "partitioner_tag": self._tag}
        if self._tag == "is_backward":
            copy.meta["autograd_backward"] = True
        self._latest[node] = copy

    def _read(self, node):
        if node not in self._latest and node.op == "get_attr":
            self._copy(node, node.name)
        if node not in self._latest:
            raise InputError(f"the plan reads {node.name} before it is made; it is no plan of this "
                             "graph")
        return self._latest[node]
