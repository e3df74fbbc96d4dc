"""How long a training step is to take."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class PredictedTime:
    """``seconds``: of the forward and the backward pass by their plans, waits for slower memory
    included. ``keep_all_seconds``: of the same where every value is kept, as though it fitted."""

    seconds: float
    keep_all_seconds: float

    @property
    def overhead(self) -> float:
        """The extra time as a share: 0.1 for 10%."""
        return self.seconds / self.keep_all_seconds - 1 if self.keep_all_seconds else 0.0
