"""What tuning found, for people and for programs."""

from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import InfeasibleError, format_bytes
from ...notebook import as_printed
from ...notebook import table as html_table
from ..common.table import aligned
from .trial import Found

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: Goals that are a size.
SIZES = ("batch", "length")


@dataclasses.dataclass(frozen=True)
class Tuned:
    """``ranked``: the combinations, the best first; those that do not fit last. ``notes``: of a
    configuration of DeepSpeed. ``mesh``: of the ranks that tuned together. ``print()`` shows them,
    ``to_json()`` is for programs."""

    goal: str
    budget: int
    ranked: Sequence[Found]
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    mesh: DeviceMesh | None = None

    @property
    def best(self) -> Found | None:
        """The first that fits; None where none does."""
        return self.ranked[0] if self.ranked and self.ranked[0].fits else None

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the best, for ``wrap``, whose example inputs are then those of one of
        ``micro_batches``. Raises InfeasibleError where none fits."""
        if self.best is None:
            raise InfeasibleError(f"no combination fits within {format_bytes(self.budget)}")
        ranks = {} if self.mesh is None else {"mesh": self.mesh}
        return {"budget": self.budget, **self.best.combination.settings, **ranks}

    @property
    def micro_batches(self) -> int:
        """In how many equal parts the batch runs by the best; 1 where none fits."""
        return 1 if self.best is None else self.best.combination.micro_batches

    @property
    def code(self) -> str:
        """What a person writes to train by the best; "" where none fits."""
        return "" if self.best is None else self.best.combination.code(self.budget)

    def __str__(self) -> str:
        table = aligned(self._rows(), left=3)
        end = self.code or "No combination fits."
        notes = "\n".join(f"{key}: {text}" for key, text in self.notes.items())
        return "\n\n".join(filter(None, [f"{self.goal} within {format_bytes(self.budget)}", table,
                                          end, notes]))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        heads, *rows = self._rows()
        return (f"<div><p>{self.goal} within {format_bytes(self.budget)}</p>"
                f"{html_table(heads, rows)}<pre>{html.escape(self.code)}</pre></div>")

    _repr_pretty_ = as_printed

    def _rows(self) -> list[list[str]]:
        """The heads, and a row for each combination."""
        rows = [self._row(str(number), found) for number, found in enumerate(self.ranked, 1)]
        heads = ["", "combination", "results", self.goal if self.goal in SIZES else "", "predicted",
                 "run", "peak", "why"]
        used = [index for index, head in enumerate(heads) if head or index == 0]
        return [[row[index] for index in used] for row in [heads, *rows]]

    @staticmethod
    def _row(number: str, found: Found) -> list[str]:
        return [number, found.combination.label, found.combination.numerics, str(found.size or ""),
                "-" if found.seconds is None else f"{found.seconds:.3g} s",
                "-" if found.measured is None else f"{found.measured.seconds:.3g} s",
                "-" if found.peak is None else format_bytes(found.peak), found.reason]

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps({
            "goal": self.goal, "budget_bytes": self.budget, "code": self.code,
            "ranked": [{"combination": found.combination.label,
                        "results": found.combination.numerics, "fits": found.fits,
                        "step_seconds": found.seconds, "peak_bytes": found.peak,
                        "size": found.size, "why": found.reason,
                        "measured": found.measured and dataclasses.asdict(found.measured)}
                       for found in self.ranked],
            "deepspeed": dict(self.notes)}, indent=2)
