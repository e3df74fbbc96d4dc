"""One compilation for each set of sizes and numbers, where Dynamo leaves them open."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import fx
from torch._dynamo.source import NumpyTensorSource, TensorPropertySource
from torch._subclasses import FakeTensorMode

from ..capture.sources import DESCRIBED
from ..common.one_trace import ONE_TRACE_AT_A_TIME
from .quietly import quietly
from .retrace_warning import ManyNumbers


def is_symbolic(value) -> bool:
    """Whether dynamo left this input's size open."""
    if isinstance(value, torch.SymInt):
        return True
    return isinstance(value, torch.Tensor) and any(
        isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))


def number_positions(graph: fx.GraphModule) -> list[int]:
    """The inputs that are numbers of the user's code, such as the share of a dropout, which Dynamo
    passes as tensors of no dimension with ``dynamic=True``."""
    given = [node.meta.get("grapharg") for node in graph.graph.find_nodes(op="placeholder")]
    return [position for position, argument in enumerate(given)
            if getattr(argument, "pass_arg_as_tensor", False)
            and not isinstance(argument.source, NumpyTensorSource)]  # of any dimension


def with_numbers(graph: fx.GraphModule, values: dict[int, float]) -> fx.GraphModule:
    """A graph with the values of these inputs in place of what reads them. The inputs stay."""
    graph = copy.copy(graph)
    graph.graph = copy.deepcopy(graph.graph)
    for position, node in enumerate(graph.graph.find_nodes(op="placeholder")):
        for reader in list(node.users) if position in values else ():
            if reader.op == "call_method" and reader.target == "item":
                reader.replace_all_uses_with(values[position])
                graph.graph.erase_node(reader)
    graph.recompile()
    return graph


@quietly()
def stand_ins(graph: fx.GraphModule, inputs: Sequence) -> list:
    """The inputs without their elements, so that they may be kept: the graph is traced with them as
    with the inputs themselves. Dynamo's own are for what it left nothing open in: AOTAutograd would
    ask Dynamo to trace again for a number that it left open, and to no avail where that is done."""
    nodes = graph.graph.find_nodes(op="placeholder")
    known = [node.meta.get("example_value") for node in nodes]
    is_tracing = torch._guards.TracingContext.try_get() is not None
    if is_tracing and not any(is_symbolic(value) for value in known):
        return known
    fake = FakeTensorMode()
    return [fake.from_tensor(value, static_shapes=True) if isinstance(value, torch.Tensor)
            else value for value in inputs]


def named_numbers(graph: fx.GraphModule) -> dict[int, str]:
    """By position, what those inputs are called that are numbers of the user's code: they are part
    of a plan. Sizes of tensors, which Dynamo passes beside them, are none."""
    tensors = set(number_positions(graph))
    described = enumerate(graph.graph.find_nodes(op="placeholder"))
    return {position: node.meta[DESCRIBED][1] for position, node in described
            if position in tensors or _is_users_integer(node)}


def _is_users_integer(node: fx.Node) -> bool:
    source = getattr(node.meta.get("grapharg"), "source", None)
    return (isinstance(node.meta.get("example_value"), torch.SymInt)
            and source is not None and not isinstance(source, TensorPropertySource))


class PerShape:
    """A callable for every size: what ``compile(*inputs)`` makes for the sizes of a call serves all
    calls of these sizes, and of these values at the positions of ``numbers``. ``names``: of numbers
    of the user's code, whose plans ``many_numbers`` counts."""

    def __init__(self, compile: Callable, numbers: Sequence[int] = (),
                 names: Mapping[int, str] | None = None,
                 many_numbers: ManyNumbers | None = None):
        self._compile, self._many_numbers = compile, many_numbers
        self._numbers = frozenset(numbers)
        self._names = names or {}
        self._compiled: dict[tuple, Callable] = {}

    def __call__(self, *inputs):
        key = tuple(value.item() if position in self._numbers else _size(value)
                    for position, value in enumerate(inputs))
        if key not in self._compiled:
            with ONE_TRACE_AT_A_TIME:
                if key not in self._compiled:  # by another thread
                    self._compiled[key] = self._compile(*inputs)
                    self._count(key)
        return self._compiled[key](*inputs)

    def _count(self, key: tuple) -> None:
        if self._many_numbers is not None:
            sizes = tuple(value for position, value in enumerate(key)
                          if position not in self._names)
            self._many_numbers.see_plan(sizes, {name: key[position]
                                                for position, name in self._names.items()})


def _size(value):
    if not isinstance(value, torch.Tensor):
        return value
    return tuple(value.shape), value.stride(), value.dtype, value.requires_grad
