"""Calls of ATen ops that are added to a graph, with what they make."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .primals import fake_mode_of


class Calls:
    """Adds calls to ``graph``, in place of nodes of ``joint``."""

    def __init__(self, joint: fx.GraphModule, graph: fx.Graph):
        self._joint, self._graph = joint, graph
        self._mode = fake_mode_of(joint)

    def instead_of(self, node: fx.Node, name: str) -> Callable:
        """What adds a call, ``run(target, *args, **kwargs)``, and returns its result: a node, or a
        list of them and of None for an op with several. All but values is told as of ``node``."""
        meta = {key: value for key, value in node.meta.items() if key not in ("val", "tensor_meta")}

        def run(target, *args, **kwargs):
            call = self._graph.create_node("call_function", target, args, kwargs, name)
            given, named = fx.map_arg((args, kwargs), self._value)
            with self._mode, torch.no_grad():
                call.meta = {**meta, "val": target(*given, **named)}
            return self._results(call)

        return run

    def renew(self, node: fx.Node) -> None:
        """Tells anew what ``node`` makes, as what it reads has been exchanged."""
        given, named = fx.map_arg((node.args, node.kwargs), self._value)
        with self._mode, torch.no_grad():
            node.meta["val"] = node.target(*given, **named)

    def _value(self, node: fx.Node) -> Any:
        value = node.meta.get("val")
        if value is None and node.op == "get_attr":
            return self._mode.from_tensor(operator.attrgetter(node.target)(self._joint))
        return value

    def _results(self, call: fx.Node) -> Any:
        value = call.meta["val"]
        if not isinstance(value, (list, tuple)):
            return call
        return [None if result is None else self._picked(call, index, result)
                for index, result in enumerate(value)]

    def _picked(self, call: fx.Node, index: int, result: object) -> fx.Node:
        picked = self._graph.call_function(operator.getitem, (call, index))
        picked.meta = {**call.meta, "val": result}
        return picked
