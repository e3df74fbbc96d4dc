"""How the budget of a model is divided among its captured graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import InfeasibleError, _core, format_bytes
from .budget import Need, shares
from .memory import storage_bytes
from .optimizer_state import optimizer_state_bytes
from .region import Region
from .settings import UNLIMITED, Settings
from .steps import Steps

#: Of the budget, what is left to other code before it is known what that takes: a loss that is
#: worked out outside of the model, results in the caller's memory.
_SHARE_OUTSIDE = 0.001
_MOST_OUTSIDE = 1 << 16


class Division:
    """Shares for the graphs of each step, of what the budget leaves them.

    Worked out once, and again after ``changed()``: when there is another graph, when it is learnt
    which run together, when more gradients are kept.

    ``parameters``: those of the whole model, where it is known; else those that the graphs use.
    ``regions``: all there are, a list that its owner changes.
    """

    def __init__(self, settings: Settings, parameters: Sequence[torch.Tensor],
                 regions: Sequence[Region], steps: Steps):
        self.settings = settings
        self.held_bytes = 0
        self.outside_bytes = 0
        self._parameters = list(parameters)
        self._traced: list[torch.Tensor] = []
        self._regions, self._steps = regions, steps
        self._optimizer_state: int | None = None
        self._fixed: int | None = None
        self._shares: dict[Region, int | None] = {}
        self._rooms: dict[Region, int | None] = {}

    def changed(self) -> None:
        self._shares.clear()
        self._rooms.clear()
        self._fixed = None

    def hold(self, held_bytes: int) -> None:
        """Gradients are kept from one step to the next. The most that was seen counts from then
        on: they leave a block while it is still there, so that it must leave them their room."""
        if held_bytes > self.held_bytes:
            self.held_bytes = held_bytes
            self.changed()

    def leave(self, outside_bytes: int) -> None:
        """Other code of the process takes so much of the budget during a step."""
        if outside_bytes != self.outside_bytes:
            self.outside_bytes = outside_bytes
            self.changed()

    def trace(self, trained: Sequence[torch.Tensor]) -> None:
        """Parameters that a graph trains: they stand for the model's where those are not known."""
        if not self._parameters:
            self._traced = list(trained)

    def share(self, region: Region) -> int | None:
        """Bytes for a plan of the graph, its residents included; None without a limit. Raises
        InfeasibleError when the graphs of its step do not fit together."""
        if region not in self._shares:
            self._shares[region] = self._share(region)
        return self._shares[region]

    def room_bytes(self, region: Region) -> int | None:
        """What the blocks of all graphs of a step may take together; None without a limit."""
        if region not in self._rooms:
            self._rooms[region] = self._room(region)
        return self._rooms[region]

    @property
    def budget_bytes(self) -> int | None:
        """The budget; a share is one of what the largest step takes when all is kept."""
        if self.settings.budget in UNLIMITED:
            return None
        steps = [self._steps.of(region) for region in self._regions]
        largest = max((self._keep_all_bytes(step) for step in steps), default=0)
        return _core.resolve_budget(str(self.settings.budget), largest)

    @property
    def fixed_bytes(self) -> int:
        """What every step holds beside the residents of the graphs: as they share parameters,
        those of the largest are subtracted."""
        if self._fixed is None:
            planned = max((region.priced.parameter_bytes for region in self._regions), default=0)
            unused = max(0, storage_bytes(self._parameters) - planned)
            self._fixed = self._optimizer_bytes() + unused
        return self._fixed

    def what_else(self) -> str:
        """What the budget holds beside the graphs, for messages."""
        state = format_bytes(self.fixed_bytes)
        kept = self.held_bytes + sum(region.apart_bytes for region in self._regions)
        held = f", {format_bytes(kept)} of gradients that are kept" if kept else ""
        outside = (f", {format_bytes(self.outside_bytes)} that other code was seen to take in a "
                   f"step" if self.outside_bytes else "")
        return (f"(The budget of {self.settings.budget} also holds {state} of optimizer state and "
                f"unused parameters{held}{outside}.)")

    def _share(self, region: Region) -> int | None:
        total = self._for_steps(region)
        if total is None:
            return None
        self._require_room(total)
        flights = [other for other in self._steps.of(region)
                   for _ in range(self._steps.flights(other))]
        share = shares(total, [_need(other) for other in flights])[flights.index(region)]
        return share - region.beside_bytes

    def _room(self, region: Region) -> int | None:
        total = self._for_steps(region)
        if total is None:
            return None
        return total - max(other.priced.resident_bytes for other in self._steps.of(region))

    def _for_steps(self, region: Region) -> int | None:
        """What is left for the graphs of a step with their residents; None without a limit."""
        total = self.budget_bytes
        if total is None:
            return None
        outside = max(self.outside_bytes, min(_MOST_OUTSIDE, int(_SHARE_OUTSIDE * total)))
        return total - self.fixed_bytes - self.held_bytes - outside - self._more_inputs(region)

    def _more_inputs(self, region: Region) -> int:
        """Bytes of the inputs of a step's flights but the first of each graph: those are among its
        residents."""
        return sum((self._steps.flights(other) - 1) * other.priced.input_bytes
                   for other in self._steps.of(region))

    def _keep_all_bytes(self, step: Sequence[Region]) -> int:
        needs = [_need(region) for region in step]
        blocks = sum(need.keep_all_bytes - need.resident_bytes for need in needs)
        return self.fixed_bytes + max(need.resident_bytes for need in needs) + blocks

    def _require_room(self, left_bytes: int) -> None:
        residents = max((region.priced.resident_bytes for region in self._regions), default=0)
        if left_bytes > residents:
            return
        raise InfeasibleError(
            f"infeasible: parameters, optimizer state and inputs alone exceed the budget of "
            f"{self.settings.budget} by {format_bytes(residents - left_bytes)}; the smallest "
            f"budget is larger.")

    def _optimizer_bytes(self) -> int:
        """Worked out once: plans stay as they are when the optimizer has made its state."""
        if self._optimizer_state is None:
            trained = [parameter for parameter in self._parameters or self._traced
                       if parameter.requires_grad]
            self._optimizer_state = optimizer_state_bytes(self.settings.optimizer, trained)
        return self._optimizer_state


def _need(region: Region) -> Need:
    known = region.priced
    return Need(known.keep_all_peak_bytes + region.beside_bytes,
                known.floor_bytes + region.beside_bytes, known.resident_bytes)
