"""A call of an ATen op as the format writes it."""

from __future__ import annotations

import torch

from ... import InputError
from . import batch_norm
from .arguments import schema_arguments
from .captured import Output
from .document import Document
from .in_place import pairs_of_call
from .module_path import full_name
from .user_line import at_user_line

#: What these libraries hold computes the same each time it runs; other ops run once. Those of
#: transformers are the matrix products of experts, those of lowtide hold values in fewer bits or
#: gather parameters.
PURE_LIBRARIES = ("aten", "prims", "transformers", "lowtide")
#: They raise an error or do nothing, so they run once and make no tensor.
_CHECKS = (torch.ops.aten._assert_async.msg, torch.ops.aten._assert_async.default)


def add_call(document: Document, node: torch.fx.Node, phase: str, norm_type: str | None,
             updates_in_place: bool) -> None:
    """``norm_type``: the op that is recorded for a batch norm, where it is another one than the
    traced one; ``updates_in_place``: it is to write its statistics where they are.

    Raises InputError for a call that does more than return its results.
    """
    _require_pure(node)
    given = batch_norm.read_arguments(node)
    bound = schema_arguments(node, given, document.values.__getitem__)
    op = {"name": full_name(node), "type": norm_type or node.target.name(), "inputs": bound.inputs,
          "outputs": [], "cost": 0, "phase": phase, "args": bound.args}
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        op["random"] = True
    if node.target.namespace not in PURE_LIBRARIES or node.meta.get("runs_once"):
        op["recomputable"] = False
    if node.target in _CHECKS:
        op["recomputable"] = False
        document.add_op(op, node)
        return
    results = _wanted_results(node)
    if updates_in_place:
        document.values[node] = _update_in_place(document, op, node, results)
    else:
        document.values[node] = document.add_results(op, node, results)
    pairs = pairs_of_call(op, node.target, document.records, _is_on_cuda(node))
    if pairs:
        op["inplace"] = pairs
    document.add_op(op, node)


def _require_pure(node):
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        raise InputError(f"{target} is no ATen op, so nothing is known of what it reads and "
                         f"writes{at_user_line(node)}.")
    has_tensors = any("Tensor" in str(result.real_type) for result in target._schema.returns)
    if target._schema.is_mutable or target.namespace == "_c10d_functional":
        raise InputError(f"{target} writes its arguments; only ops that leave them as they are can "
                         f"run again{at_user_line(node)}.")
    if not has_tensors and target not in _CHECKS:
        raise InputError(f"{target} makes no tensor: it is called for its effect or for a value "
                         f"that depends on data, and neither can be planned{at_user_line(node)}.")


def _wanted_results(node):
    """The fake results, None for those that an output_mask leaves out."""
    value = node.meta["val"]
    mask = _argument(node, "output_mask")
    if mask is None:
        return value
    return [result if wanted else None for result, wanted in zip(value, mask)]


def _argument(node, name):
    """The argument of that name of a call, None when it has none."""
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.name == name:
            return node.args[index] if index < len(node.args) else node.kwargs.get(name)
    return None


def _is_on_cuda(node):
    value = node.meta["val"]
    return isinstance(value, torch.Tensor) and value.device.type == "cuda"


def _update_in_place(document, op, node, results):
    """Writes the op as one that mutates its statistics: the new ones are the old ones."""
    positions = [op["args"][index]["tensor"] for index in batch_norm.READ]
    op["mutates"] = positions
    statistics = [Output(op["inputs"][position]) for position in positions]
    return [*document.add_results(op, node, results[:batch_norm.MADE[0]]), *statistics]
