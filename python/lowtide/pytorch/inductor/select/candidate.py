"""A candidate: one split of a joint graph, and the peak and time expected of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from .... import InfeasibleError, Planned, format_bytes
from ..split.joint import Halves, KernelGraph


@dataclasses.dataclass(frozen=True)
class PlannedSplit:
    """A plan of Lowtide's, and what it is a plan of."""

    kernel_graph: KernelGraph
    found: Planned


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A split, and what a step is expected to take with it.

    ``name`` says whose it is. ``expected_bytes``: the peak with parameters, buffers and inputs.
    ``overhead``: of the time, estimated, beside PyTorch's own split. ``planned``: where Lowtide
    made it. ``near``: whether Inductor is to fuse as in ``fusion.py`` and to save inputs as in
    ``saved_inputs.py``. ``rival``: of a plan of Lowtide's, the fastest of PyTorch's splits that
    fits. ``budget_bytes``: what the step was to fit in, None for no limit. ``after_bytes``: what
    the step takes in all when its passes are over, however it is split.
    """

    name: str
    halves: Halves
    expected_bytes: int
    overhead: float
    planned: PlannedSplit | None = None
    near: bool = False
    rival: Candidate | None = None
    budget_bytes: int | None = None
    after_bytes: int = 0

    @property
    def step_bytes(self) -> int:
        """The peak of the whole step."""
        return max(self.expected_bytes, self.after_bytes)

    @property
    def fits(self) -> bool:
        return self.budget_bytes is None or self.step_bytes <= self.budget_bytes


def fastest(found: Iterable[Candidate], budget_bytes: int) -> Candidate | None:
    """Of those within the budget; None where none is."""
    fitting = [candidate for candidate in found if candidate.expected_bytes <= budget_bytes]
    return min(fitting, key=lambda candidate: candidate.overhead, default=None)


def require_fit(candidate: Candidate, over: float = 0.0) -> Candidate:
    """The candidate. Raises InfeasibleError where it exceeds its budget by more than the part
    ``over`` of it."""
    if candidate.fits or candidate.step_bytes <= (1 + over) * candidate.budget_bytes:
        return candidate
    raise too_small(candidate.budget_bytes, candidate.step_bytes, is_measured=False,
                    is_afterwards=candidate.step_bytes == candidate.after_bytes)


def require_room_afterwards(budget_bytes: int | None, after_bytes: int) -> None:
    """Raises InfeasibleError for a budget below what a step takes when its passes are over, as it
    does with each split."""
    if budget_bytes is not None and budget_bytes < after_bytes:
        raise too_small(budget_bytes, after_bytes, is_measured=False, is_afterwards=True)


class TooSmall(InfeasibleError):
    """That a budget is below ``smallest_budget``. Users see the name that they can catch."""

    __module__, __qualname__ = "lowtide", InfeasibleError.__qualname__

    def __init__(self, message: str, smallest_budget: int):
        super().__init__(message)
        self.smallest_budget = smallest_budget


def too_small(budget_bytes: int, smallest: int, *, is_measured: bool,
              is_afterwards: bool) -> TooSmall:
    """For a budget below the smallest step that was measured, or else expected: Inductor compiles
    for minutes, so what is expected far above a budget is not compiled to measure it.
    ``is_afterwards``: the step takes that when its passes are over."""
    when = (" when its passes are over, with gradients, the optimizer's state and what its step "
            "takes for a while," if is_afterwards else "")
    how, advice = ("was measured", "give that much") if is_measured else (
        "is expected", "give that much, or more where it is measured to take more")
    return TooSmall(
        f"the smallest step that {how} takes {smallest} bytes ({format_bytes(smallest)}){when} and "
        f"the budget is {budget_bytes} ({format_bytes(budget_bytes)}); {advice}, or a smaller "
        f"batch", smallest)
