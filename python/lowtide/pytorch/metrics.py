"""What a step takes, as plain numbers for whatever logs numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .autograd.session import Session
from .budget.memory import Memory
from .budget.predicted_time import PredictedTime
from .planned_class import session_of

if TYPE_CHECKING:
    from .inductor.mode import InductorMode


def metrics(model: torch.nn.Module, prefix: str = "lowtide_") -> dict[str, float]:
    """Figures of a wrapped module by name, for ``wandb.log``, ``SummaryWriter.add_scalar`` and the
    like: those of ``model.memory`` in bytes, and the predicted time of its passes.

    ``prefix``: of each name; ``"lowtide/"`` makes a group of them. What is not known yet is left
    out: measured figures before the first step, a budget where there is none, predictions where
    nothing is planned or Inductor compiles. Raises InputError for a module that is not wrapped.
    """
    return {prefix + name: value for name, value in figures_of(session_of(model)).items()}


def figures_of(session: Session | InductorMode) -> dict[str, float]:
    """By the names that metrics have behind their prefix."""
    is_planned = isinstance(session, Session) and session.has_plans
    predicted = session.figures.predicted() if is_planned else None  # type: ignore[union-attr]
    return figures(session.memory(), predicted)


def figures(memory: Memory, predicted: PredictedTime | None) -> dict[str, float]:
    found: dict[str, float] = {} if memory.budget is None else {"budget_bytes": memory.budget}
    found |= {"planned_bytes": memory.planned_peak, "existing_bytes": memory.existing}
    if memory.measured_peak:
        found |= {"peak_bytes": memory.measured_peak, "outside_bytes": memory.outside,
                  "moved_out_bytes": memory.moved.bytes_out + memory.state_moved.bytes_out,
                  "moved_back_bytes": memory.moved.bytes_in + memory.state_moved.bytes_in}
    if predicted is not None:
        found |= {"predicted_seconds": predicted.seconds,
                  "predicted_overhead": predicted.overhead}
    return found
