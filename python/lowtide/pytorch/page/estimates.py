"""What a module would need otherwise, by estimates of its eager step."""

from __future__ import annotations

import torch

from ... import Estimate, estimate, format_bytes
from ..budget.settings import Settings
from ..planned_class import plain_module
from ..tune.rows_of_batch import first_rows, number_of_rows


def estimated_savings(model: torch.nn.Module, example_inputs: object,
                      settings: Settings) -> list[str]:
    """Sentences. All figures are those of a step that keeps every value."""
    plain = plain_module(model)

    def estimated(inputs: object, precision: str | None) -> Estimate:
        return estimate(plain, inputs, optimizer=settings.optimizer, precision=precision,
                        measure=False)

    now = estimated(example_inputs, settings.precision).peak_bytes
    found = []
    if settings.precision is None:
        found.append(_sentence("In bf16 (precision=\"bf16\")",
                               estimated(example_inputs, "bf16").peak_bytes, now))
    rows = number_of_rows(example_inputs)
    if rows is not None and rows > 1:
        half = rows // 2
        found.append(_sentence(
            f"With {half} instead of {rows} rows in a micro-batch",
            estimated(first_rows(example_inputs, half), settings.precision).peak_bytes, now))
    return found


def _sentence(how: str, peak: int, now: int) -> str:
    return (f"{how}, a step that keeps every value is estimated to take {format_bytes(peak)} "
            f"instead of {format_bytes(now)}, without workspaces.")
