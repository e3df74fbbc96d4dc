"""Updates by gradients that are clipped by the norm of all of them, as ops of a captured graph.

The norm of each gradient, the coefficient from all norms, then for each parameter its gradient
times the coefficient, and its update. A plan may hold a gradient from its norm to its product, or
make it again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..common.fused_update import FusedUpdate
from .arguments import float_argument
from .captured import Output
from .document import Document
from .dtypes import NAMES
from .in_place import permitted_pairs
from .updates import running_updates, update_op

_library = torch.library.Library("lowtide", "FRAGMENT")
_library.define("gradient_norm(Tensor gradient, Tensor parameter, float norm_type) -> Tensor")
_library.define("clip_coefficient(Tensor[] norms, Tensor[] parameters, float max_norm, "
                "float norm_type) -> Tensor")

_DTYPES = {name: dtype for dtype, name in NAMES.items()}


def _gradient_norm(gradient: torch.Tensor, parameter: torch.Tensor,
                   norm_type: float) -> torch.Tensor:
    """The order of a sum is that of the elements in memory: there, ``.grad`` lies as its
    parameter."""
    if gradient.stride() != parameter.stride():
        gradient = torch.empty_like(parameter).copy_(gradient)
    return torch._foreach_norm([gradient], norm_type)[0]


def _clip_coefficient(norms: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor],
                      max_norm: float, norm_type: float) -> torch.Tensor:
    """As ``torch.nn.utils.clip_grad_norm_`` computes it."""
    updates = running_updates()
    chosen = norms if updates is None else updates.norms_to_clip_by(norms, parameters)
    if not chosen:  # nothing is updated
        return torch.ones_like(norms[0])
    total = torch.linalg.vector_norm(torch.stack(list(chosen)), norm_type)
    if updates is not None:
        updates.take_total_norm(total)
    return torch.clamp(max_norm / (total + 1e-6), max=1.0)


_library.impl("gradient_norm", _gradient_norm, "CompositeExplicitAutograd")
_library.impl("clip_coefficient", _clip_coefficient, "CompositeExplicitAutograd")


def add_clipped_updates(document: Document, boundary: int, parameters: Sequence[int | None],
                        gradients: Sequence[Output], clip: FusedUpdate) -> list[Output]:
    """Adds ops for every parameter that has a gradient, in the order in which their gradients are
    made. Returns what is left to be returned of the gradients.

    ``boundary``: the position of that op. ``parameters``: by primal, its tensor, or None.
    """
    left = list(gradients)
    clipped: list[tuple[int, int]] = []
    for position, (parameter, gradient) in enumerate(zip(parameters, gradients)):
        if parameter is None or gradient.tensor is None:
            continue
        if 0 in document.records[parameter]["shape"]:  # all such are at one address
            continue
        clipped.append((parameter, gradient.tensor))
        left[position] = Output()
    if not clipped:
        return left
    made = {tensor: index for index, op in enumerate(document.ops) for tensor in op["outputs"]}
    clipped.sort(key=lambda pair: made.get(pair[1], -1))
    norms = [_insert_norm(document, boundary, parameter, gradient, clip)
             for parameter, gradient in clipped]
    coefficient = _add_coefficient(document, norms, [parameter for parameter, _ in clipped], clip)
    for parameter, made_gradient in clipped:
        scaled = _add_scaled(document, parameter, made_gradient, coefficient)
        document.add_op(update_op(document, parameter, scaled), None)
    return left


def _insert_norm(document: Document, boundary: int, parameter: int, gradient: int,
                 clip: FusedUpdate) -> int:
    """As soon as the gradient is there."""
    name = f"norm of the gradient of {document.records[parameter]['name']}"
    norm = document.tensors.add_made(name, torch.linalg.vector_norm(
        _like(document, gradient), clip.norm_type))
    place = max((index for index, op in enumerate(document.ops) if gradient in op["outputs"]),
                default=boundary)
    document.insert_op(max(place, boundary) + 1, {
        "name": name, "type": "lowtide::gradient_norm", "inputs": [gradient, parameter],
        "outputs": [norm], "cost": 0, "phase": "optimizer",
        "args": [{"tensor": 0}, {"tensor": 1}, float_argument(float(clip.norm_type))]})
    return norm


def _add_coefficient(document: Document, norms: Sequence[int], parameters: Sequence[int],
                     clip: FusedUpdate) -> int:
    """Runs once: it hands the norm on."""
    coefficient = document.tensors.add_made("clip coefficient", torch.stack(
        [_like(document, norm) for norm in norms]).sum())
    document.add_op({
        "name": "clip coefficient", "type": "lowtide::clip_coefficient",
        "inputs": [*norms, *parameters], "outputs": [coefficient], "cost": 0,
        "phase": "optimizer", "recomputable": False,
        "args": [{"tensors": list(range(len(norms)))},
                 {"tensors": list(range(len(norms), len(norms) + len(parameters)))},
                 float_argument(float(clip.max_norm)),
                 float_argument(float(clip.norm_type))]}, None)
    return coefficient


def _add_scaled(document: Document, parameter: int, gradient: int, coefficient: int) -> int:
    name = f"clipped gradient of {document.records[parameter]['name']}"
    scaled = document.tensors.add_made(
        name, _like(document, gradient) * _like(document, coefficient))
    op = {"name": name, "type": "aten::mul.Tensor", "inputs": [gradient, coefficient],
          "outputs": [scaled], "cost": 0, "phase": "optimizer",
          "args": [{"tensor": 0}, {"tensor": 1}]}
    pairs = permitted_pairs(op, document.records)
    if pairs:
        op["inplace"] = pairs
    document.add_op(op, None)
    return scaled


def _like(document: Document, tensor: int) -> torch.Tensor:
    """One of that type, without memory."""
    record = document.records[tensor]
    shape, dtype = record["shape"], _DTYPES[record["dtype"]]
    if "strides" not in record:
        return torch.empty(shape, dtype=dtype, device="meta")
    return torch.empty_strided(shape, record["strides"], dtype=dtype, device="meta")
