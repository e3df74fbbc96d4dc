"""Which ops may write their result over an input (docs/decisions/03-in-place-by-address.md)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..joint_graph.dense import is_dense

#: Element-by-element ops without a structured kernel: one pass all the same.
_ONE_PASS = frozenset(f"aten::{name}" for name in (
    "add.Scalar", "sub.Scalar", "mul.Scalar", "div.Scalar", "rsub.Scalar", "relu", "abs",
    "logical_not", "hardtanh", "hardtanh_backward", "where.self", "native_dropout",
    "native_dropout_backward")) | frozenset(f"lowtide::{name}" for name in (
        "pass_by_bits", "gather_wait", "reduce_start", "reduce_wait", "scatter_start"))
#: Something is added to the first argument: the kernel copies that into the result and adds there.
#: Over the same bytes nothing changes, as the others are read after that.
_ADDED_TO_FIRST = frozenset(("aten::addmm", "aten::baddbmm", "aten::index_add"))
#: Kernels of the CPU that reduce a line, and then compute each of its elements from that of the
#: inputs. Those of CUDA were not tried.
_LINE_BY_LINE = frozenset(f"aten::{name}" for name in (
    "_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"))


def is_pointwise(target: torch._ops.OpOverload) -> bool:
    """Whether the kernel reads element i before it writes element i, and never reads it again.

    PyTorch's tag alone does not say so: masked_fill copies the input first and then reads the
    mask. A structured kernel computes in one pass.
    """
    if target.name() in _ONE_PASS:
        return True
    structured = torch._C._dispatch_has_kernel_for_dispatch_key(
        target.name(), "CompositeExplicitAutogradNonFunctional")
    random = torch.Tag.nondeterministic_seeded in target.tags
    return torch.Tag.pointwise in target.tags and structured and not random


def pairs_of_call(op: dict, target: torch._ops.OpOverload, tensors: Sequence[dict],
                  is_on_cuda: bool) -> list[list[int]]:
    """Every [0, input position] where the kernel may write its result over that input."""
    if is_pointwise(target) or (target.name() in _LINE_BY_LINE and not is_on_cuda):
        return permitted_pairs(op, tensors)
    if target.name() not in _ADDED_TO_FIRST:
        return []
    first, *factors = (tensors[index].get("alias_of", index) for index in op["inputs"])
    return [] if first in factors else [pair for pair in permitted_pairs(op, tensors)
                                        if pair == [0, 0]]


def permitted_pairs(op: dict, tensors: Sequence[dict]) -> list[list[int]]:
    """Every [0, input position] where output 0 may lie over that input, as far as memory goes.

    The input is a value that lies exactly as the result will and fills its storage, and the op
    does not read the same memory in another layout too.
    """
    def storage(index):
        return tensors[index].get("alias_of", index)

    result = tensors[op["outputs"][0]]
    is_in_order = "strides" not in result or is_dense(result["shape"], result["strides"])
    if "alias_of" in result or not result["bytes"] or not is_in_order:
        return []
    pairs = []
    for position, index in enumerate(op["inputs"]):
        owner = tensors[storage(index)]
        covered = owner["kind"] == "value" and owner["bytes"] == result["bytes"]
        if covered and all(_same_layout(tensors[other], result) for other in op["inputs"]
                           if storage(other) == storage(index)):
            pairs.append([0, position])
    return pairs


def choose_pairs(ops: list[dict], tensors: list[dict], outputs: list[int]) -> None:
    """Leaves each op one of its pairs: the first whose input nobody reads later, if there is one.
    """
    last = {}
    for index, op in enumerate(ops):
        for tensor in op["inputs"]:
            last[tensors[tensor].get("alias_of", tensor)] = index
    for tensor in outputs:
        last[tensors[tensor].get("alias_of", tensor)] = len(ops)
    for index, op in enumerate(ops):
        if "inplace" not in op:
            continue
        inputs = [op["inputs"][position] for _, position in op["inplace"]]
        dying = [pair for pair, tensor in zip(op["inplace"], inputs)
                 if last[tensors[tensor].get("alias_of", tensor)] == index]
        op["inplace"] = (dying or op["inplace"])[:1]


def _same_layout(a, b):
    return all(a.get(key) == b.get(key) for key in ("dtype", "shape", "strides"))
