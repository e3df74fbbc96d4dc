"""All captured graphs of one model, and the steps that they are run in."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import torch

from .. import InfeasibleError, Plan, _core, format_bytes
from .capture import Captured
from .division import Division
from .kept_gradients import KeptGradients
from .memory import Memory, Meter, outside_room
from .planning import no_plan
from .plans import Plans
from .region import Region
from .room import Room
from .settings import Settings
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
        #: Of torch.compile, which this session serves; None for a wrapped module.
        self.options: Mapping | None = None
        #: How often a captured graph was called; each call of the model should come to one.
        self.runs = 0
        self._plans: list[Plans] = []
        self._steps = Steps(self.regions)
        self._division = Division(settings, parameters, self.regions, self._steps)
        self._room = Room(self.regions, self._division)
        self._gradients = KeptGradients(parameters)
        self._meter = Meter(self.regions)
        self._kept_bytes = 0
        self._ran = False
        self._met_graph = False
        self._leaves_room = True
        self._last: Region | None = None

    def add(self, captured: Captured, trained: Sequence[torch.Tensor]) -> Region:
        """Prices and plans a captured graph together with those that are there. Raises
        InfeasibleError when they do not fit; then nothing is added.

        ``trained``: what is known of the parameters among its primals that need gradients.
        """
        region = Region(captured, self.settings, self._plans)
        self._division.trace(trained)
        self.regions.append(region)
        self._steps.meet(region)
        self._met_graph = True
        self._division.changed()
        try:
            self.plan_for(region)
        except BaseException:
            self.regions.remove(region)
            self._steps.forget(region)
            self._division.changed()
            raise
        self._plans.append(region.plans)
        return region

    def next_name(self) -> str:
        """What the next captured graph is called: the first has the model's own name."""
        return f"{self.name} ({len(self.regions) + 1})" if self.regions else self.name

    def plan_for(self, region: Region) -> Plan:
        """The plan of a region as things are: how many graphs there are, which gradients live."""
        try:
            share = self._division.share(region)
            return region.plans.within(share, soon=self._in_haste())
        except InfeasibleError as error:
            enough = getattr(error, "smallest_budget", None)
            if enough is not None:
                enough += self.budget_bytes - share
            raise no_plan(f"{error} {self._division.what_else()}", enough) from None

    def _in_haste(self) -> bool:
        """Whether a run waits for the plan, or a plan for other sizes is there already."""
        return self._ran or len(self.regions) > 1

    # ---- Steps

    def forward(self, region: Region, primals: Sequence) -> tuple[list, torch.Tensor]:
        """The forward outputs of a region and its ticket."""
        self.runs += 1
        if self.preparing:
            raise Prepared
        if not any(other.open_flights for other in self.regions):
            self._begin_step(region)
        self._gradients.meet(primals, region.inputs)
        if self._steps.meet(region):
            self._division.changed()
        plan = self._room.plan_that_fits(region, self.plan_for(region))
        result = region.forward(plan, primals)
        self._ran = True
        return result

    def backward(self, region: Region, ticket: torch.Tensor, saved: Sequence[torch.Tensor],
                 tangents: Sequence[torch.Tensor]) -> list:
        """The gradients for a ticket, which may be flown already (``retain_graph``).

        ``saved``: what autograd saved of the flight, as ``region.saved`` lists it.
        """
        executor = region.executors.awaiting(ticket)
        if executor is not None:
            gradients = region.backward(executor, tangents, self._goes_on_elsewhere())
        else:
            region.require_again()
            self._clear_blocks(region)
            plan = self._room.plan_that_fits(region, self.plan_for(region),
                                             region.priced.beside_bytes)
            gradients = region.backward_again(plan, ticket, saved, tangents)
        self._meter.read()
        self._last = region
        return gradients

    def evaluate(self) -> None:
        """Other work begins, and may have what the training step does not need now."""
        self.runs += 1
        if self.preparing:
            raise Prepared
        self._release_idle()

    def _begin_step(self, region: Region) -> None:
        self._clear_blocks(region)
        self._leave_room_outside(region)
        self._room.gave_up = False
        step = self._steps.of(region)
        for other in self.regions:
            if other not in step:
                other.executors.release_idle()
        self._meter.begin()

    def _leave_room_outside(self, region: Region) -> None:
        """The most that other code took during a step counts from then on, where plans can do with
        what is left. A step in which a graph was captured tells nothing: ops were measured then."""
        step = self._steps.of(region)
        foreseen = sum(other.beside_bytes for other in step)
        seen = outside_room(max(0, self._meter.outside_bytes - foreseen))
        before = self._division.outside_bytes
        tells, self._met_graph = not self._met_graph, False
        if not tells or not self._leaves_room or seen <= before or self.budget_bytes is None:
            return
        self._division.leave(seen)
        try:
            for other in step:
                self.plan_for(other)
        except InfeasibleError as error:
            self._leaves_room = False
            self._division.leave(before)
            warnings.warn(
                f"other code of this process took {format_bytes(seen)} during the last step, which "
                f"the budget of {self.settings.budget} has no room for, so that steps exceed it: "
                f"{error} Put the loss into the module, so that it is planned, or allow more.",
                stacklevel=5)

    def _clear_blocks(self, region: Region) -> None:
        """Moves gradients out of the blocks before a flight of this region. Where somebody keeps
        others than those in ``.grad``, and with them the block where they lie, they get memory of
        their own from now on."""
        self._kept_bytes = self._gradients.bytes()
        if self._kept_bytes:
            self._move_gradients_out(region)
        self._division.hold(self._kept_bytes)
        for other in self.regions:
            if not other.all_apart and other.holds_gradients:
                other.all_apart = True
                self._division.changed()

    def _move_gradients_out(self, region: Region) -> None:
        executors = [executor for other in self.regions for executor in other.executors
                     if executor.held_bytes]

        def in_a_block(gradient: torch.Tensor) -> bool:
            return any(executor.contains(gradient) for executor in executors)

        if self._room.has(region, self._kept_bytes):
            self._gradients.move_out(in_a_block)
        else:
            self._gradients.move_out_by_file(in_a_block, self._release_idle)

    def _release_idle(self) -> None:
        """Gives back the blocks that nobody needs now."""
        for region in self.regions:
            region.executors.release_idle()

    def _goes_on_elsewhere(self) -> bool:
        """Whether a flight is to be flown again before the step is over, so that gradients which
        are passed on to it must leave their block."""
        return self._room.gave_up or torch._C._autograd._get_current_graph_task_keep_graph()

    # ---- Figures

    @property
    def budget_bytes(self) -> int | None:
        return self._division.budget_bytes

    def memory(self) -> Memory:
        """What a step was planned to take and took, in bytes."""
        fixed = self._division.fixed_bytes
        if not self.regions:
            return Memory(None, fixed, fixed)
        step = self._steps.of(self._last or self.regions[0])
        existing = fixed + self._kept_bytes + max(
            region.priced.resident_bytes for region in step)
        blocks = sum(region.block_bytes(self.plan_for(region)) for region in step)
        taken, outside = self._meter.block_bytes, self._meter.outside_bytes
        return Memory(self.budget_bytes, existing, existing + blocks,
                      existing + taken + outside if taken else 0, outside)

    def least_bytes(self) -> int:
        """About the smallest budget that the planner would find plans for."""
        step = self._steps.of(self._last or self.regions[0])
        residents = max(region.priced.resident_bytes for region in step)
        blocks = sum(region.plans.least_bytes() - region.priced.resident_bytes
                     + region.beside_bytes for region in step)
        return self._division.fixed_bytes + residents + blocks

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
