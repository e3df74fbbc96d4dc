"""The joint graph of a model on several ranks, with its collectives as ops."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Container, Sequence

import torch
from torch import fx

from ..joint_graph.calls import Calls
from ..joint_graph.dense import is_dense
from ..joint_graph.primals import fake_mode_of, placeholders
from . import coalesced
from .layout import GraphLayout, ShardLayout

_aten = torch.ops.aten
_ops = torch.ops.lowtide


def with_collectives(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str],
                     names: Sequence[str], layout: GraphLayout) -> fx.GraphModule:
    """The same step on one of several ranks: primals that lie in shards are gathered before their
    first use; gradients of parameters become the mean over all ranks, in a shard where the
    parameter is in one.

    Roles and names are by primal; a parameter that is not trained is a buffer. A collective stands
    where what it reads is complete, in two ops, one that starts it and one that waits for it. A
    parameter that is used in a smaller type alone is gathered in that type.
    """
    primals = placeholders(joint, "primals")
    results = list(joint.graph.output_node().args[0])
    parameters = [_Parameter(primal, gradient, layout.shards.get(name))
                  for primal, gradient, role, name
                  in zip(primals, results[num_fwd_outputs:], roles, names)
                  if role == "parameter" or role == "buffer" and name in layout.shards]
    writer = _CollectiveWriter(joint, layout, parameters)
    writer.write()
    return writer.module(results, primals, num_fwd_outputs)


@dataclasses.dataclass(frozen=True)
class _Parameter:
    """``gradient``: the node that makes it, where one does; ``shard``: how it lies, where in
    shards."""

    primal: fx.Node
    gradient: fx.Node | None
    shard: ShardLayout | None


class _CollectiveWriter:
    """Writes the new graph. ``_values`` holds, by node of the old one, what stands for it;
    ``_scattered`` and ``_reduced``, by primal and by the node that makes it, the gradient over all
    ranks. ``_whole`` holds, by primal in shards, the nodes that a gather stands for: the primal, or
    its casts."""

    def __init__(self, joint: fx.GraphModule, layout: GraphLayout,
                 parameters: Sequence[_Parameter]):
        self._joint, self._layout = joint, layout
        self._graph = fx.Graph()
        self._calls = Calls(joint, self._graph)
        self._values: dict[fx.Node, fx.Node] = {}
        self._placeholders: dict[fx.Node, fx.Node] = {}
        self._scattered: dict[fx.Node, fx.Node] = {}
        self._reduced: dict[fx.Node, fx.Node] = {}
        self._nodes = [node for node in joint.graph.nodes if node.op != "output"]
        self._parameters = {parameter.primal: parameter for parameter in parameters}
        self._shards = {primal: parameter.shard for primal, parameter in self._parameters.items()
                        if parameter.shard is not None}
        self._whole = {primal: _narrowing_casts(primal) or [primal] for primal in self._shards}
        self._casts = {cast for primal, whole in self._whole.items() for cast in whole
                       if cast is not primal}
        self._widened: list[fx.Node] = []
        self._gathers = self._gathered_together()
        self._scatters = self._scattered_together()
        self._reduces = self._reduced_together()

    def write(self) -> None:
        for node in self._nodes:
            if node in self._shards:
                self._add_shard(node, self._shards[node])
            elif node not in self._casts:
                self._values[node] = self._graph.node_copy(node, self._value)
            # A collective stands behind what it reads, and behind all placeholders.
            if node.op != "placeholder":
                self._add_collectives(node)
        for node in self._nodes:
            if node.op == "placeholder":
                self._add_collectives(node)

    def module(self, results: Sequence, primals: Sequence[fx.Node],
               num_fwd_outputs: int) -> fx.GraphModule:
        outputs = fx.map_arg(results[:num_fwd_outputs], self._value)
        gradients = [self._over_all_ranks(primal, gradient)
                     for primal, gradient in zip(primals, results[num_fwd_outputs:])]
        output = self._graph.output((*outputs, *gradients))
        output.meta = dict(self._joint.graph.output_node().meta)
        for cast in dict.fromkeys(self._widened):
            if not cast.users:
                self._graph.erase_node(cast)
        return fx.GraphModule(self._joint, self._graph)

    # ---- What goes together

    def _gathered_together(self) -> dict[fx.Node, list[fx.Node]]:
        """By what a gather stands for, the primals in shards that are gathered with it: in the
        order of their first uses, as many as fit."""
        places = {node: place for place, node in enumerate(self._nodes)}
        by_whole = {whole[0]: primal for primal, whole in self._whole.items()}
        used = sorted((whole for whole, primal in by_whole.items() if self._users(primal)),
                      key=lambda whole: min(places.get(user, len(places))
                                            for user in self._users(by_whole[whole])))
        together: dict[fx.Node, list[fx.Node]] = {}
        for bucket in self._shard_buckets(used):
            primals = [by_whole[whole] for whole in bucket]
            together |= {node: primals for primal in primals for node in self._whole[primal]}
        return together

    def _users(self, primal: fx.Node) -> list[fx.Node]:
        """What reads a primal in shards when it is whole."""
        return [user for node in self._whole[primal] for user in node.users]

    def _scattered_together(self) -> dict[fx.Node, list[list[_Parameter]]]:
        """By the gradient that is made last, the parameters in shards whose gradients are."""
        found: dict[fx.Node, list[list[_Parameter]]] = {}
        for reduced_in in dict.fromkeys(shard.reduced_in for shard in self._shards.values()):
            by_gradient: dict[fx.Node, list[_Parameter]] = {}
            for primal, shard in self._shards.items():
                parameter = self._parameters[primal]
                if parameter.gradient is not None and shard.reduced_in == reduced_in:
                    by_gradient.setdefault(parameter.gradient, []).append(parameter)
            for bucket in self._shard_buckets(self._in_order_made(by_gradient)):
                found.setdefault(bucket[-1], []).append(
                    [parameter for gradient in bucket for parameter in by_gradient[gradient]])
        return found

    def _reduced_together(self) -> dict[fx.Node, list[fx.Node]]:
        """By the gradient that is made last, gradients of parameters of which each rank has a
        copy."""
        gradients = {parameter.gradient for parameter in self._parameters.values()
                     if parameter.shard is None and parameter.gradient is not None}
        buckets = _buckets(self._in_order_made(gradients), _type_of, self._layout.bucket_bytes)
        return {bucket[-1]: bucket for bucket in buckets}

    def _in_order_made(self, gradients: Container[fx.Node]) -> list[fx.Node]:
        """Placeholders count as made at the end."""
        made = sorted(self._nodes, key=lambda node: node.op == "placeholder")
        return [node for node in made if node in gradients]

    def _shard_buckets(self, nodes: Sequence[fx.Node]) -> list[list[fx.Node]]:
        """Of parameters in shards or of their gradients: those that are coalesced, and others."""
        return _buckets(nodes, lambda node: (_type_of(node), self._is_small(node)),
                        self._layout.bucket_bytes)

    def _is_coalesced(self, bucket: Sequence[fx.Node]) -> bool:
        """Whether its tensors go in one message."""
        return len(bucket) > 1 and all(map(self._is_small, bucket))

    def _is_small(self, node: fx.Node) -> bool:
        return node.meta["val"].nbytes <= self._layout.coalesced_bytes

    # ---- What is written

    def _add_collectives(self, node: fx.Node) -> None:
        """Of what the node makes, or completes."""
        for parameters in self._scatters.get(node, ()):
            self._scatter(parameters)
        if node in self._reduces:
            self._reduce(self._reduces[node])

    def _over_all_ranks(self, primal: fx.Node, gradient: fx.Node | None) -> fx.Node | None:
        if primal in self._scattered:
            return self._scattered[primal]
        if primal in self._parameters and gradient in self._reduced:
            return self._reduced[gradient]
        return fx.map_arg(gradient, self._value)

    def _value(self, node: fx.Node) -> fx.Node:
        if node not in self._values:
            self._gather(self._gathers[node])
        return self._values[node]

    def _add_shard(self, node: fx.Node, shard: ShardLayout) -> None:
        placeholder = self._placeholders[node] = self._graph.node_copy(node)
        value = node.meta["val"]
        with fake_mode_of(self._joint):
            placeholder.meta["val"] = value.new_empty(shard.shard_shape).requires_grad_(
                value.requires_grad)

    def _gather(self, primals: Sequence[fx.Node]) -> None:
        run = self._calls.instead_of(primals[0], f"{primals[0].name}_gathered")
        placeholders = [self._placeholders[primal] for primal in primals]
        group, dtype = self._layout.sharing, _type_of(self._whole[primals[0]][0])
        sent = {} if all(_type_of(one) == dtype for one in primals) else {"dtype": dtype}
        if self._is_coalesced([self._whole[primal][0] for primal in primals]):
            pending = run(coalesced.gather_start, placeholders, group, **sent)
            whole = run(coalesced.gather_wait, pending,
                        [one.meta["val"].numel() for one in placeholders], group)
        else:
            pending = run(_ops.gather_start.default, placeholders, group, **sent)
            whole = run(_ops.gather_wait.default, pending)
        if self._layout.keeps_gathered:
            _once(pending)
            _once(whole)
        shards = [self._shards[primal] for primal in primals]
        views = _views(run, whole, [(shard.shape, _contiguous(shard.shape)) for shard in shards],
                       [shard.ranks * math.prod(shard.shard_shape) for shard in shards])
        self._values.update((node, view) for primal, view in zip(primals, views)
                            for node in self._whole[primal])

    def _scatter(self, parameters: Sequence[_Parameter]) -> None:
        last = parameters[-1].primal
        run = self._calls.instead_of(parameters[-1].gradient, f"{last.name}_gradient_scattered")
        gradients = [self._in_rows(parameter) for parameter in parameters]
        group = self._layout.sharing
        size = sum(gradient.meta["val"].nbytes for gradient in gradients)
        if size <= self._layout.exchange_bytes and self._is_coalesced(
                [parameter.gradient for parameter in parameters]):
            pending = _once(run(coalesced.exchange_start, gradients, group))
            means = _once(run(coalesced.exchange_wait, pending, group))
        elif size <= self._layout.exchange_bytes:
            # What is sent from there must not end and be made again meanwhile.
            pending = _once(run(_ops.exchange_start.default, list(map(_once, gradients)), group))
            means = _once(run(_ops.exchange_wait.default, pending, gradients, group))
        else:
            pending = _once(run(_ops.scatter_start.default, gradients, group))
            means = _once(run(_ops.scatter_wait.default, pending, group))
        if self._layout.alike is not None:
            pending = _once(run(_ops.reduce_start.default, [means], self._layout.alike))
            means = _once(run(_ops.reduce_wait.default, pending))
        if _type_of(means) != _type_of(last):
            means = run(_aten._to_copy.default, means, dtype=_type_of(last))
        shapes = [self._shards[parameter.primal].shard_shape for parameter in parameters]
        views = _views(run, means, [(shape, _contiguous(shape)) for shape in shapes],
                       [math.prod(shape) for shape in shapes])
        self._scattered.update(zip([parameter.primal for parameter in parameters], views))

    def _in_rows(self, parameter: _Parameter) -> fx.Node:
        """The gradient as it is sent: contiguous, in the type that it is reduced in, with as many
        rows as all shards have."""
        shard, node = self._shards[parameter.primal], parameter.gradient
        run = self._calls.instead_of(node, f"{parameter.primal.name}_gradient_in_rows")
        gradient = self._values[node]
        if shard.reduced_in not in (None, _type_of(node)):
            gradient = self._in_type(gradient, shard.reduced_in, run)
        if shard.padding:
            gradient = run(_aten.constant_pad_nd.default, gradient,
                           [0, 0] * (len(shard.shape) - 1) + [0, shard.padding])
        if not gradient.meta["val"].is_contiguous():
            gradient = run(_aten.clone.default, gradient, memory_format=torch.contiguous_format)
        return gradient

    def _in_type(self, gradient: fx.Node, dtype: torch.dtype, run: Callable) -> fx.Node:
        """In another type, which it may have been made in."""
        if _is_cast(gradient) and _type_of(gradient.args[0]) == dtype:
            self._widened.append(gradient)
            return gradient.args[0]
        return run(_aten._to_copy.default, gradient, dtype=dtype)

    def _reduce(self, bucket: Sequence[fx.Node]) -> None:
        run = self._calls.instead_of(bucket[-1], f"{bucket[-1].name}_reduced")
        given = [self._dense(node) for node in bucket]
        pending = _once(run(_ops.reduce_start.default, given, self._layout.group))
        whole = _once(run(_ops.reduce_wait.default, pending))
        values = [gradient.meta["val"] for gradient in given]
        views = [whole] if len(given) == 1 else _views(
            run, whole, [(value.shape, value.stride()) for value in values],
            [value.numel() for value in values])
        self._reduced.update(zip(bucket, views))

    def _dense(self, node: fx.Node) -> fx.Node:
        """A gradient whose elements fill one stretch of memory."""
        value = node.meta["val"]
        if is_dense(value.shape, value.stride()):
            return self._values[node]
        run = self._calls.instead_of(node, f"{node.name}_dense")
        return run(_aten.clone.default, self._values[node],
                   memory_format=torch.contiguous_format)


def _narrowing_casts(primal: fx.Node) -> list[fx.Node]:
    """All that reads it, where that makes one type of fewer bytes of it and nothing else."""
    users = list(primal.users)
    if not all(map(_is_cast, users)) or len(set(map(_type_of, users))) != 1:
        return []
    is_smaller = _type_of(users[0]).itemsize < _type_of(primal).itemsize
    is_returned = any(reader.op == "output" for user in users for reader in user.users)
    return users if is_smaller and not is_returned else []


def _is_cast(node: fx.Node) -> bool:
    """To another type, with all elements where they were."""
    return (node.op == "call_function" and node.target is _aten._to_copy.default
            and set(node.kwargs) == {"dtype"})


def _once(call: fx.Node) -> fx.Node:
    """Each rank takes part once, whatever a plan runs again."""
    call.meta["runs_once"] = True
    return call


def _views(run: Callable, row: fx.Node, shapes_and_strides: Sequence[tuple],
           elements: Sequence[int]) -> list[fx.Node]:
    """Tensors that lie one after the other in a row of elements, each in so many of them."""
    firsts = itertools.accumulate(elements, initial=0)
    return [run(_aten.as_strided.default, row, list(shape), list(strides), first)
            for (shape, strides), first in zip(shapes_and_strides, firsts)]


def _contiguous(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[dim + 1:]) for dim in range(len(shape))]


def _buckets(nodes: Sequence[fx.Node], kind: Callable[[fx.Node], object],
             most_bytes: int) -> list[list[fx.Node]]:
    """Of each kind, in their order, as many together as fit."""
    by_kind: dict[object, list[fx.Node]] = {}
    for node in nodes:
        by_kind.setdefault(kind(node), []).append(node)
    return [bucket for alike in by_kind.values() for bucket in _filled(alike, most_bytes)]


def _type_of(node: fx.Node) -> torch.dtype:
    return node.meta["val"].dtype


def _filled(nodes: Sequence[fx.Node], most_bytes: int) -> list[list[fx.Node]]:
    """In their order, as many together as fit."""
    buckets: list[list[fx.Node]] = []
    taken = 0
    for node in nodes:
        size = node.meta["val"].nbytes
        if not buckets or taken + size > most_bytes:
            buckets.append([])
            taken = 0
        buckets[-1].append(node)
        taken += size
    return buckets
