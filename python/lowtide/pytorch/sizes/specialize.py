"""A joint graph whose sizes are open, for given sizes."""

from __future__ import annotations

import sympy
import torch
from torch import fx
from torch.utils import _pytree as pytree

from .open_sizes import Sizes


def specialized(joint: fx.GraphModule, sizes: Sizes) -> fx.GraphModule:
    """The graph that a trace with inputs of these sizes gives: numbers in place of all that is
    computed of sizes, and fake tensors of these sizes, that share storages as those of ``joint``
    do. ``sizes``: of each symbol in it."""
    return _Specialization(joint, sizes).module()


class _Specialization:
    def __init__(self, joint: fx.GraphModule, sizes: Sizes):
        self._joint = joint
        self._sizes = {symbol: sympy.Integer(size) for symbol, size in sizes.items()}
        self._known: dict[sympy.Expr, int] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)

    def module(self) -> fx.GraphModule:
        graph = fx.Graph()
        copies: dict[fx.Node, object] = {}
        for node in self._joint.graph.nodes:
            if _makes_number(node):
                copies[node] = self._number(node, copies)
                continue
            copy = graph.node_copy(node, copies.__getitem__)
            copy.meta = dict(node.meta)
            if "val" in copy.meta:
                copy.meta["val"] = pytree.tree_map(self._value, copy.meta["val"])
            # An input that is a size stays, and nothing reads it.
            copies[node] = copy.meta["val"] if _is_number(node) else copy
        return fx.GraphModule(self._joint, graph)

    def _number(self, node: fx.Node, copies: dict[fx.Node, object]) -> object:
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            return self._size(value)
        arguments, named = fx.map_arg((node.args, node.kwargs), copies.__getitem__)
        return node.target(*arguments, **named)

    def _value(self, value: object) -> object:
        if isinstance(value, torch.SymInt):
            return self._size(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        return value

    def _size(self, size: int | torch.SymInt) -> int:
        if not isinstance(size, torch.SymInt):
            return size
        expression = size.node.expr
        if expression not in self._known:
            self._known[expression] = int(expression.xreplace(self._sizes))
        return self._known[expression]

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.layout is not torch.strided:
            return tensor
        storage = tensor.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = torch.UntypedStorage(self._size(storage.nbytes()),
                                                                  device="meta")
        found = torch.empty(0, dtype=tensor.dtype, device="meta").set_(
            self._storages[storage._cdata], self._size(tensor.storage_offset()),
            [self._size(size) for size in tensor.shape],
            [self._size(stride) for stride in tensor.stride()])
        if tensor.is_conj():
            found = torch._conj(found)
        if tensor.is_neg():
            found = torch._neg_view(found)
        return torch._subclasses.FakeTensor(self._mode, found, tensor.device)


def _makes_number(node: fx.Node) -> bool:
    return node.op == "call_function" and _is_number(node)


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))
