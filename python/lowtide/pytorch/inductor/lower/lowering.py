"""Lowers and schedules a graph as Inductor does, without generating code.

Inductor lowers a graph, fuses and orders the kernels, and only then writes and compiles them, which
takes most of the time. Its scheduler knows by then which values are written to memory and for how
long, so that a split of a joint graph can be evaluated for a small part of what compiling it takes.
Internals of PyTorch 2.13 are used, in the order in which ``torch._inductor.compile_fx`` does.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._inductor import ir
from torch._inductor.compile_fx import (
    _recursive_post_grad_passes,
    fake_tensor_prop,
    record_original_output_strides,
    view_to_reshape,
)
from torch._inductor.debug import DebugContext
from torch._inductor.graph import GraphLowering
from torch._inductor.scheduler import ExternKernelSchedulerNode
from torch._inductor.virtualized import V

from ...capture.arithmetic import flops
from ...joint_graph.primals import placeholders
from ..predict.products import NOTHING, KernelCost, kernel_cost
from ..predict.rates import microseconds, pointwise_operations
from .buffers import peak_bytes
from .fusion import fusion
from .saved_inputs import save_inputs_as_they_are

#: The strides of a result; None where Inductor leaves them as they were traced.
Strides = tuple[int, ...] | None

NO_COPIES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Lowered:
    """A step as Inductor would run it.

    ``peak_bytes``: what its two graphs hold at most above parameters, buffers and inputs, with the
    scratch memory of libraries' kernels. ``microseconds`` are by ``rates.py`` and ``products.py``.
    ``copied_bytes`` are held between forward and backward beside what the graphs say: parameters
    and inputs as a convolution wants them laid out, saved in place of themselves.
    """

    peak_bytes: int
    microseconds: float
    copied_bytes: int = 0


def lowered(halves: tuple[fx.GraphModule, fx.GraphModule], near: bool = False) -> Lowered:
    """Of the forward and the backward graph of a step; both are left as they are. ``near``: as in
    ``fusion.py`` and ``saved_inputs.py``."""
    forward, backward = halves
    with fusion(near):
        first, results = _lower(forward, _inputs(forward), is_backward=False, as_they_are=near)
        saved = dict(zip(_names(forward), results, strict=True))
        strides = {name: result.strides for name, result in saved.items()}
        copied = _copied(backward, saved)
        second, _ = _lower(backward, _laid_out(backward, strides), is_backward=True, copied=copied)
    return Lowered(max(first.peak_bytes, second.peak_bytes),
                   first.microseconds + second.microseconds, sum(copied.values()))


class KnownLowerings:
    """``lowered``, once for each split: another round of a fit looks at the same ones."""

    def __init__(self):
        self._known: dict[tuple, Lowered] = {}

    def __call__(self, halves: tuple[fx.GraphModule, fx.GraphModule], near: bool) -> Lowered:
        key = (near, *map(_text, halves))
        if key not in self._known:
            self._known[key] = lowered(halves, near)
        return self._known[key]


def _text(half) -> str:
    """What a half computes, and of which sizes."""
    sizes = [(value.shape, value.stride(), value.dtype) if isinstance(value, torch.Tensor)
             else value for value in _inputs(half)]
    return f"{half.graph}{sizes}"


@dataclass(frozen=True)
class _Result:
    """What a lowered graph returns: ``is_input`` where that is an input itself."""

    strides: Strides
    is_input: bool


def _copied(backward, saved: dict[str, _Result]) -> dict[str, int]:
    """Bytes of the backward's inputs that are named as the forward's and are copies of them."""
    return {node.name: node.meta["val"].nbytes for node in placeholders(backward, "primals")
            if node.name in saved and not saved[node.name].is_input}


def _lower(half, inputs, is_backward, copied=NO_COPIES,
           as_they_are=False) -> tuple[Lowered, list[_Result]]:
    """The graph lowered, and what it returns; ``as_they_are``: the inputs among that."""
    graph = _prepared(half, inputs, as_they_are)
    mode = detect_fake_mode(inputs)
    with V.set_fake_mode(mode), V.set_debug_handler(DebugContext()):
        lowering = GraphLowering(graph, example_inputs=inputs, shape_env=mode.shape_env,
                                 is_backward=is_backward)
        with V.set_graph_handler(lowering), V.set_extern_kernel_nodes([]):
            lowering.run(*inputs)
            lowering._update_scheduler()
            kernels = lowering.scheduler.nodes
            scratch = [max(map(_scratch_bytes, kernel.get_nodes())) for kernel in kernels]
            found = Lowered(peak_bytes(lowering, kernels, scratch, copied),
                            sum(map(_microseconds, kernels)))
            return found, [_Result(_strides_of(result), _is_input(result, lowering))
                           for result in lowering.graph_outputs]


def _prepared(half, inputs, as_they_are):
    """A copy with Inductor's passes for one half done."""
    graph = copy.deepcopy(half)
    view_to_reshape(graph)
    mode = detect_fake_mode(inputs)
    with torch.no_grad(), mode:
        fake_tensor_prop(graph, inputs)
    graph.graph.output_node().meta["user_visible_output_idxs"] = []
    if as_they_are:
        save_inputs_as_they_are(graph)
    record_original_output_strides(graph)
    with V.set_fake_mode(mode):
        _recursive_post_grad_passes(graph, is_inference=False)
    return graph


def _microseconds(kernel) -> float:
    products = pointwise = 0.0
    for part in kernel.get_nodes():
        if isinstance(part, ExternKernelSchedulerNode):
            products += _product(part.node).microseconds
        elif part.node is not None:
            pointwise += sum(map(pointwise_operations, _traced(part.node)))
    if products:
        return products
    return microseconds(0, kernel.get_read_write_buffers_sizes(), pointwise)


def _scratch_bytes(part) -> int:
    return _product(part.node).scratch_bytes if isinstance(part, ExternKernelSchedulerNode) else 0


def _product(node: ir.Operation) -> KernelCost:
    """What a library's kernel takes. The ops that Inductor says it comes from are also those that
    its inputs come from, and each of several results is a node of its own."""
    own = node.get_origin_node()
    if isinstance(node, ir.MultiOutput):
        return NOTHING
    if own is not None and flops(own):
        return kernel_cost(own)
    costs = map(kernel_cost, _traced(node))
    return max(costs, key=lambda cost: cost.microseconds, default=NOTHING)


def _traced(node: ir.Operation) -> set[fx.Node]:
    return {origin for origin in node.get_origins() if "val" in origin.meta}


def _strides_of(result) -> Strides:
    layout = result.maybe_get_layout() if hasattr(result, "maybe_get_layout") else None
    stride = getattr(layout, "stride", None)
    return None if stride is None else tuple(int(step) for step in stride)


def _is_input(result, lowering) -> bool:
    is_constant = isinstance(result, (ir.NoneAsConstantBuffer, ir.ShapeAsConstantBuffer))
    return not is_constant and result.get_name() in lowering.graph_inputs


def _inputs(half):
    return [node.meta["val"] for node in half.graph.find_nodes(op="placeholder")]


def _names(half) -> list[str]:
    return [value.name if isinstance(value, fx.Node) else ""
            for value in half.graph.output_node().args[0]]


def _laid_out(backward, strides: dict[str, Strides]) -> Sequence[torch.Tensor]:
    """The backward's inputs as the forward's code leaves them, such as with channels last."""
    given = []
    for node in backward.graph.find_nodes(op="placeholder"):
        value, wanted = node.meta["val"], strides.get(node.name)
        if wanted is not None and wanted != value.stride() and len(wanted) == value.dim():
            with detect_fake_mode([value]):
                value = torch.empty_strided(value.shape, wanted, dtype=value.dtype,
                                            device=value.device)
        given.append(value)
    return given
