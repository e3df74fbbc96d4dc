"""How far the gradients of a graph that stashes activations with loss are from the exact ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from ... import InfeasibleError, Plan, format_bytes
from ..common.random_numbers import random_numbers_kept
from ..joint_graph.primals import placeholders
from .region import Region

#: Of the tangents, where a model returns more than a loss.
_SEED = 1

#: Of the norm of all gradients: one as small is that of a bias before a batch norm, which is zero.
_NEGLIGIBLE = 1e-5


@dataclasses.dataclass(frozen=True)
class GradientError:
    """Of one batch: the relative L2 error of all parameters' gradients together, and of the
    parameter where it is largest, of those whose gradient is no rounding error. ``excess_bytes``:
    what measuring took beyond the budget."""

    relative: float
    worst: float
    worst_name: str
    excess_bytes: int = 0

    def __str__(self) -> str:
        excess = (f"; measuring that took {format_bytes(self.excess_bytes)} beyond the budget, once"
                  if self.excess_bytes else "")
        return (f"relative error of the gradients of one batch: {self.relative:.2g} in all, "
                f"{self.worst:.2g} for {self.worst_name}{excess}")


def measured_error(region: Region, plan: Plan, primals: Sequence,
                   share: int | None) -> GradientError:
    """By a pass of ``region.plain``, which holds values as they are, and one of the region. Both
    draw the same random numbers, and the caller's generators stay as they are. The results' own
    gradients are 1 for a loss, else normal.

    ``share``: bytes for a plan of either. Takes as many bytes as the gradients beside them.
    """
    plain, device = region.plain, torch.device(region.captured.device)
    exact_plan, excess = _exact_plan(plain, share)
    tangents = _tangents(region)
    exact: dict[int, torch.Tensor] = {}
    with random_numbers_kept(device):
        plain.passes.visit_gradients(plain.priced.graph, exact_plan, primals, tangents,
                                     lambda position, gradient:
                                     exact.__setitem__(position, gradient.clone()))
    plain.executors.release_idle()
    norms: dict[int, tuple[float, float]] = {}

    def compare(position: int, gradient: torch.Tensor) -> None:
        size = exact[position].double().norm().item()
        norms[position] = (gradient.double().sub(exact.pop(position)).norm().item(), size)

    with random_numbers_kept(device):
        region.passes.visit_gradients(region.priced.graph, plan, primals, tangents, compare)
    tensors, indices = region.captured.graph.tensors, region.captured.primals
    by_name = {tensors[indices[position]].name: norm for position, norm in norms.items()}
    total = [math.hypot(*column) for column in zip(*by_name.values())]
    # Where gradients are no numbers, none is less than a share of their norm.
    worst = max((name for name, (_, size) in by_name.items() if not size < _NEGLIGIBLE * total[1]),
                key=lambda name: _sortable(_relative(*by_name[name])))
    return GradientError(_relative(*total), _relative(*by_name[worst]), worst, excess)


def _exact_plan(plain: Region, share: int | None) -> tuple[Plan, int]:
    """One within the share, or the one that takes the fewest bytes beyond it, and how many."""
    try:
        return plain.plans.within(share), 0
    except InfeasibleError:
        least = plain.plans.smallest()
        return least, 0 if share is None else max(0, least.arena_bytes - share)


def _tangents(region: Region) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(_SEED)
    values = [node.meta["val"] for node in placeholders(region.captured.joint, "tangents")]
    return [torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                device=value.device).copy_(
            torch.randn(value.shape, generator=generator, device="cpu") if value.dim()
            else torch.ones((), device="cpu"))
            for value in values]


def _relative(difference: float, size: float) -> float:
    return difference / size if size else (math.inf if difference else 0.0)


def _sortable(error: float) -> float:
    return math.inf if math.isnan(error) else error
