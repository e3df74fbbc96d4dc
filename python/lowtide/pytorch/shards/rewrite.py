"""The joint graph of a model on several ranks, with its collectives as ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import fx

from ..joint_graph.calls import Calls
from ..joint_graph.dense import is_dense
from ..joint_graph.primals import fake_mode_of, placeholders
from .layout import GraphLayout, ShardLayout

_aten = torch.ops.aten
_ops = torch.ops.lowtide


def with_collectives(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str],
                     names: Sequence[str], layout: GraphLayout) -> fx.GraphModule:
    """The same step on one of several ranks: primals that lie in shards are gathered before their
    first use; gradients of parameters become the mean over all ranks, in a shard where the
    parameter is in one.

    Roles and names are by primal. A collective stands where what it reads is complete, in two ops,
    one that starts it and one that waits for it.
    """
    writer = _Writer(joint, layout)
    primals = placeholders(joint, "primals")
    results = list(joint.graph.output_node().args[0])
    parameters = [_Parameter(primal, gradient, layout.shards.get(name))
                  for primal, gradient, role, name
                  in zip(primals, results[num_fwd_outputs:], roles, names)
                  if role == "parameter"]
    writer.write(parameters)
    return writer.module(results, primals, num_fwd_outputs)


@dataclasses.dataclass(frozen=True)
class _Parameter:
    """``gradient``: the node that makes it, where one does; ``shard``: how it lies, where in
    shards."""

    primal: fx.Node
    gradient: fx.Node | None
    shard: ShardLayout | None


class _Writer:
    """Writes the new graph. ``_values`` holds, by node of the old one, what stands for it;
    ``_scattered`` and ``_reduced``, by primal and by the node that makes it, the gradient over all
    ranks."""

    def __init__(self, joint: fx.GraphModule, layout: GraphLayout):
        self._joint, self._layout = joint, layout
        self._graph = fx.Graph()
        self._calls = Calls(joint, self._graph)
        self._values: dict[fx.Node, fx.Node] = {}
        self._shards: dict[fx.Node, tuple[fx.Node, ShardLayout]] = {}
        self._scattered: dict[fx.Node, fx.Node] = {}
        self._reduced: dict[fx.Node, fx.Node] = {}
        self._parameters: set[fx.Node] = set()

    def write(self, parameters: Sequence[_Parameter]) -> None:
        self._parameters.update(parameter.primal for parameter in parameters)
        shards = {parameter.primal: parameter.shard for parameter in parameters
                  if parameter.shard is not None}
        scattered: dict[fx.Node, list[_Parameter]] = {}
        for parameter in parameters:
            if parameter.shard is not None and parameter.gradient is not None:
                scattered.setdefault(parameter.gradient, []).append(parameter)
        copies = {parameter.gradient for parameter in parameters if parameter.shard is None}
        nodes = [node for node in self._joint.graph.nodes if node.op != "output"]
        buckets = {bucket[-1]: bucket for bucket in _buckets(
            [node for node in _made_last(nodes) if node in copies], self._layout.bucket_bytes)}
        for node in nodes:
            if node in shards:
                self._add_shard(node, shards[node])
            else:
                self._values[node] = self._graph.node_copy(node, self._value)
            # A collective stands behind what it reads, and behind all placeholders.
            if node.op != "placeholder":
                self._reduce_made(node, scattered, buckets)
        for node in nodes:
            if node.op == "placeholder":
                self._reduce_made(node, scattered, buckets)

    def _reduce_made(self, node: fx.Node, scattered: Mapping[fx.Node, Sequence[_Parameter]],
                     buckets: Mapping[fx.Node, Sequence[fx.Node]]) -> None:
        """What the node makes, or completes."""
        for parameter in scattered.get(node, ()):
            self._scatter(parameter)
        if node in buckets:
            self._reduce(buckets[node])

    def module(self, results: Sequence, primals: Sequence[fx.Node],
               num_fwd_outputs: int) -> fx.GraphModule:
        outputs = fx.map_arg(results[:num_fwd_outputs], self._value)
        gradients = [self._over_all_ranks(primal, gradient)
                     for primal, gradient in zip(primals, results[num_fwd_outputs:])]
        output = self._graph.output((*outputs, *gradients))
        output.meta = dict(self._joint.graph.output_node().meta)
        return fx.GraphModule(self._joint, self._graph)

    def _over_all_ranks(self, primal: fx.Node, gradient: fx.Node | None) -> fx.Node | None:
        if primal in self._scattered:
            return self._scattered[primal]
        if primal in self._parameters and gradient in self._reduced:
            return self._reduced[gradient]
        return fx.map_arg(gradient, self._value)

    def _value(self, node: fx.Node) -> fx.Node:
        if node not in self._values:
            self._values[node] = self._gather(node, *self._shards[node])
        return self._values[node]

    def _add_shard(self, node: fx.Node, shard: ShardLayout) -> None:
        placeholder = self._graph.node_copy(node)
        value = node.meta["val"]
        with fake_mode_of(self._joint):
            placeholder.meta["val"] = value.new_empty(shard.shard_shape).requires_grad_(
                value.requires_grad)
        self._shards[node] = placeholder, shard

    def _gather(self, node: fx.Node, placeholder: fx.Node, shard: ShardLayout) -> fx.Node:
        run = self._calls.instead_of(node, f"{node.name}_gathered")
        pending = run(_ops.gather_start.default, placeholder, self._layout.group)
        whole = run(_ops.gather_wait.default, pending, placeholder)
        if self._layout.keeps_gathered:
            _once(pending)
            _once(whole)
        return run(_aten.slice.Tensor, whole, 0, 0, shard.shape[0]) if shard.padding else whole

    def _scatter(self, parameter: _Parameter) -> None:
        shard, node = parameter.shard, parameter.gradient
        assert shard is not None and node is not None
        run = self._calls.instead_of(node, f"{parameter.primal.name}_gradient_scattered")
        gradient = self._values[node]
        if shard.padding:
            gradient = run(_aten.constant_pad_nd.default, gradient,
                           [0, 0] * (len(shard.shape) - 1) + [0, shard.padding])
        if not gradient.meta["val"].is_contiguous():
            gradient = run(_aten.clone.default, gradient, memory_format=torch.contiguous_format)
        pending = _once(run(_ops.scatter_start.default, gradient, self._layout.group))
        self._scattered[parameter.primal] = _once(run(
            _ops.scatter_wait.default, pending, gradient, self._layout.group))

    def _reduce(self, bucket: Sequence[fx.Node]) -> None:
        run = self._calls.instead_of(bucket[-1], f"{bucket[-1].name}_reduced")
        given = [self._dense(node) for node in bucket]
        pending = _once(run(_ops.reduce_start.default, given, self._layout.group))
        whole = _once(run(_ops.reduce_wait.default, pending))
        parts = [whole] if len(given) == 1 else _parts(run, whole, given)
        self._reduced.update(zip(bucket, parts))

    def _dense(self, node: fx.Node) -> fx.Node:
        """A gradient whose elements fill one stretch of memory."""
        value = node.meta["val"]
        if is_dense(value.shape, value.stride()):
            return self._values[node]
        run = self._calls.instead_of(node, f"{node.name}_dense")
        return run(_aten.clone.default, self._values[node],
                   memory_format=torch.contiguous_format)


def _once(call: fx.Node) -> fx.Node:
    """Each rank takes part once, whatever a plan runs again."""
    call.meta["runs_once"] = True
    return call


def _parts(run: Callable, bucket: fx.Node, gradients: Sequence[fx.Node]) -> list[fx.Node]:
    found, first = [], 0
    for gradient in gradients:
        value = gradient.meta["val"]
        found.append(run(_aten.as_strided.default, bucket, list(value.shape),
                         list(value.stride()), first))
        first += value.numel()
    return found


def _made_last(nodes: Sequence[fx.Node]) -> list[fx.Node]:
    """In the order in which they are written: placeholders count as made at the end."""
    return sorted(nodes, key=lambda node: node.op == "placeholder")


def _buckets(gradients: Sequence[fx.Node], most_bytes: int) -> list[list[fx.Node]]:
    """In the order in which they are made, as many of a type together as fit."""
    buckets: list[list[fx.Node]] = []
    taken = 0
    for gradient in gradients:
        value = gradient.meta["val"]
        fits = (buckets and taken + value.nbytes <= most_bytes
                and buckets[-1][0].meta["val"].dtype == value.dtype)
        if not fits:
            buckets.append([])
            taken = 0
        buckets[-1].append(gradient)
        taken += value.nbytes
    return buckets
