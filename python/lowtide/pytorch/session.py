"""All captured graphs of one model, and the memory that a step of them takes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .. import InfeasibleError, Plan, _core, _runtime, format_bytes
from .budget import Need, shares
from .capture import Captured
from .memory import Memory, storage_bytes
from .optimizer_state import optimizer_state_bytes
from .region import Region
from .settings import UNLIMITED, Settings
from .steps import Steps


class Prepared(Exception):
    """The graphs are captured and planned, and nothing was to be run."""


class Session:
    """Plans and runs the graphs of one model within one budget.

    ``parameters``: those of the whole model, where it is known; else those that the graphs use.
    ``name``: what the graphs are called in reports.
    While ``preparing``, a graph raises Prepared instead of running.
    """

    def __init__(self, settings: Settings, parameters: Sequence[torch.Tensor] = (),
                 name: str = "graph"):
        self.settings = settings
        self.name = name
        self.regions: list[Region] = []
        self.preparing = False
        self._parameters = list(parameters)
        self._traced: list[torch.Tensor] = []
        self._steps = Steps(self.regions)
        self._ran = False
        self._optimizer_state: int | None = None
        self._last: Region | None = None
        self._held_bytes = 0
        self._outside_base = 0
        self._outside_peak = 0
        self._measured_blocks = 0

    def add(self, captured: Captured, trained: Sequence[torch.Tensor]) -> Region:
        """Prices and plans a captured graph together with those that are there. Raises
        InfeasibleError when they do not fit; then nothing is added.

        ``trained``: what is known of the parameters among its primals that need gradients.
        """
        region = Region(captured, self.settings)
        if not self._parameters:
            self._traced = list(trained)
        self.regions.append(region)
        self._steps.meet(region)
        try:
            self.plan_for(region)
        except BaseException:
            self.regions.remove(region)
            self._steps.forget(region)
            raise
        return region

    def next_name(self) -> str:
        """What the next captured graph is called: the first has the model's own name."""
        return f"{self.name} ({len(self.regions) + 1})" if self.regions else self.name

    # ---- Budget

    def plan_for(self, region: Region) -> Plan:
        """The plan of a region as things are: how many graphs there are, which gradients live."""
        total = self.budget_bytes
        if total is not None:
            total -= self._fixed_bytes() + self._held_bytes
            self._require_room(total)
        step = self._steps.of(region)
        flights = [other for other in step for _ in range(self._steps.flights(other))]
        try:
            share = shares(total, [self._need(other) for other in flights])[flights.index(region)]
            return region.plan_within(None if share is None else share - region.priced.beside_bytes,
                                      soon=self._ran)
        except InfeasibleError as error:
            raise InfeasibleError(f"{error} {self._what_else()}") from None

    @property
    def budget_bytes(self) -> int | None:
        """The budget; a share is one of what the largest step takes when all is kept."""
        if self.settings.budget in UNLIMITED:
            return None
        steps = [self._steps.of(region) for region in self.regions]
        largest = max((self._keep_all_bytes(step) for step in steps), default=0)
        return _core.resolve_budget(str(self.settings.budget), largest)

    def _keep_all_bytes(self, step: Sequence[Region]) -> int:
        needs = [self._need(region) for region in step]
        blocks = sum(need.keep_all_bytes - need.resident_bytes for need in needs)
        return self._fixed_bytes() + max(need.resident_bytes for need in needs) + blocks

    def _need(self, region: Region) -> Need:
        known = region.priced
        return Need(known.keep_all_peak_bytes + known.beside_bytes,
                    known.floor_bytes + known.beside_bytes, known.resident_bytes)

    def _require_room(self, left_bytes: int) -> None:
        if left_bytes > self._resident_bytes():
            return
        short = self._resident_bytes() - left_bytes
        raise InfeasibleError(
            f"infeasible: parameters, optimizer state and inputs alone exceed the budget of "
            f"{self.settings.budget} by {format_bytes(short)}; the smallest budget is larger. "
            f"{self._what_else()}")

    def _fixed_bytes(self) -> int:
        """What every step holds beside the residents of the graphs: as they share parameters,
        those of the largest are subtracted."""
        planned = max((region.priced.parameter_bytes for region in self.regions), default=0)
        return self._optimizer_bytes() + max(0, storage_bytes(self._parameters) - planned)

    def _optimizer_bytes(self) -> int:
        """Worked out once: plans stay as they are when the optimizer has made its state."""
        if self._optimizer_state is None:
            trained = [parameter for parameter in self._parameters or self._traced
                       if parameter.requires_grad]
            self._optimizer_state = optimizer_state_bytes(self.settings.optimizer, trained)
        return self._optimizer_state

    def _resident_bytes(self) -> int:
        return max((region.priced.resident_bytes for region in self.regions), default=0)

    def _what_else(self) -> str:
        state = format_bytes(self._fixed_bytes())
        held = f" and {format_bytes(self._held_bytes)} of gradients that are kept" \
            if self._held_bytes else ""
        return (f"(The budget of {self.settings.budget} also holds {state} of optimizer state and "
                f"unused parameters{held}.)")

    # ---- Steps

    def forward(self, region: Region, primals: Sequence) -> tuple[list, torch.Tensor]:
        if self.preparing:
            raise Prepared
        if not any(other.open_flights for other in self.regions):
            self._begin_step(region, primals)
        self._steps.meet(region)
        result = region.forward(self.plan_for(region), primals)
        self._ran = True
        return result

    def backward(self, region: Region, ticket: torch.Tensor, tangents: Sequence) -> list:
        gradients = region.backward(ticket, tangents)
        self._outside_peak = _runtime.counted_peak_bytes() - self._outside_base
        self._measured_blocks = sum(executor.measured_peak_bytes for other in self.regions
                                    for executor in other.executors if executor.held_bytes)
        self._last = region
        return gradients

    def evaluate(self) -> None:
        """Other work begins, and may have what the training step does not need now."""
        if self.preparing:
            raise Prepared
        for region in self.regions:
            region.release_idle()

    def _begin_step(self, region: Region, primals: Sequence) -> None:
        self._move_gradients_out(primals)
        for other in self.regions:
            if other not in self._steps.of(region):
                other.release_idle()
        _runtime.reset_counted_peak()
        self._outside_base = _runtime.counted_bytes()

    def _move_gradients_out(self, primals: Sequence) -> None:
        """Gradients that the caller keeps (to add to them) make room in the blocks they lie in."""
        parameters = self._parameters or [p for p in primals if isinstance(p, torch.nn.Parameter)]
        self._held_bytes = 0
        for parameter in parameters:
            if not parameter.is_leaf or parameter.grad is None:
                continue
            self._held_bytes += parameter.grad.nbytes
            if any(executor.contains(parameter.grad) for region in self.regions
                   for executor in region.executors):
                parameter.grad = parameter.grad.clone()

    # ---- Figures

    def memory(self) -> Memory:
        if not self.regions:
            return Memory(None, self._fixed_bytes(), self._fixed_bytes())
        step = self._steps.of(self._last or self.regions[0])
        existing = self._fixed_bytes() + self._held_bytes + max(
            region.priced.resident_bytes for region in step)
        blocks = sum(_block_bytes(region, self.plan_for(region)) for region in step)
        ran = self._measured_blocks > 0
        return Memory(self.budget_bytes, existing, existing + blocks,
                      existing + self._measured_blocks + self._outside_peak if ran else 0,
                      self._outside_peak)

    def explanation(self, most: int) -> str:
        """The memory of a step, then each graph's peak and recomputations, ``most`` of each."""
        if not self.regions:
            return ("Nothing is planned yet: the model was wrapped without example inputs and did "
                    "not run.")
        parts = [str(self.memory())]
        for region in self.regions:
            graph = region.priced.graph
            parts.append(f"{region.name}: {len(graph.ops)} ops\n"
                         + _core.explain(graph, self.plan_for(region), most))
        return "\n\n".join(parts)


def _block_bytes(region: Region, plan: Plan) -> int:
    return plan.arena_bytes - region.priced.resident_bytes + region.priced.beside_bytes
