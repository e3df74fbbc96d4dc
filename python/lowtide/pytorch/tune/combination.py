"""A combination of the ways to need less memory."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..budget.offload import Offload
from ..common.stash_kinds import changes_gradients


@dataclasses.dataclass(frozen=True)
class Combination:
    """Settings as of ``wrap``. ``micro_batches``: in how many parts of a batch the gradients are
    added up. ``sharding``: of the ranks of a mesh; None: in this process alone."""

    precision: str | None = None
    micro_batches: int = 1
    stash: str | None = "exact"
    slices: int | str = 1
    offload: Offload | None = None
    fused_update: bool = False
    sharding: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """For ``wrap``, those that differ from its defaults."""
        defaults = Combination()
        fields = ("precision", "stash", "slices", "offload", "fused_update", "sharding")
        return {name: getattr(self, name) for name in fields
                if getattr(self, name) != getattr(defaults, name)}

    @property
    def changes(self) -> int:
        """In how much it differs from training as it is."""
        changed = {name: value for name, value in self.settings.items() if value != "none"}
        return len(changed) + (self.micro_batches > 1)

    @property
    def label(self) -> str:
        parts = [self.precision or ""]
        if self.micro_batches > 1:
            parts.append(f"{self.micro_batches} micro-batches")
        if changes_gradients(self.stash):
            parts.append(f"stash {self.stash}")
        if self.slices != 1:
            parts.append("slices" if self.slices == "auto" else f"{self.slices} slices")
        if self.offload is not None:
            places = [self.offload, *filter(None, [self.offload.second])]
            parts.append(f"offload to {' and '.join(str(place.to) for place in places)}")
        if self.fused_update:
            parts.append("fused update")
        if self.sharding is not None:
            parts.append(f"sharding {self.sharding}")
        return ", ".join(filter(None, parts)) or "as it is"

    @property
    def numerics(self) -> str:
        """How the results differ from those of eager PyTorch."""
        parts = []
        if self.precision is not None:
            parts.append(f"as torch.autocast in {self.precision}")
        if self.micro_batches > 1:
            parts.append("batch norm sees micro-batches, sums round otherwise")
        if self.slices != 1:
            parts.append("sums round otherwise, dropout draws by slice")
        if changes_gradients(self.stash):
            parts.append(f"gradients from activations in {self.stash}")
        return "; ".join(parts) or "the same bits"

    def code(self, budget: int) -> str:
        """What a person writes to train so."""
        arguments = [f"{name}={_as_written(value)}" for name, value in self.settings.items()]
        if self.sharding is not None:
            arguments.append("mesh=mesh")
        text = ", ".join(["model", "inputs", f"budget={budget}", "optimizer=optimizer", *arguments])
        wrapped = f"model = lowtide.wrap({text})"
        if self.micro_batches == 1:
            return wrapped
        return (f"{wrapped}  # inputs: those of a micro-batch\n"
                f"# In each step, where the loss is a mean over rows (or over targets, if given):\n"
                f"# for part in lowtide.micro_batches(batch, {self.micro_batches}, targets=None):\n"
                f"#     (loss of part.inputs * part.weight).backward()\n"
                f"# and then optimizer.step() and optimizer.zero_grad().")


def _as_written(value: object) -> str:
    if not isinstance(value, Offload):
        return repr(value)
    defaults = Offload(value.to)
    names = [field.name for field in dataclasses.fields(value)
             if getattr(value, field.name) != getattr(defaults, field.name)]
    given = [f"{name}={_as_written(getattr(value, name))}" for name in names]
    if not given:
        return repr(str(value.to))
    return f"lowtide.Offload({', '.join([repr(str(value.to)), *given])})"
