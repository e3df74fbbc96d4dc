"""The account of one budget: what it must hold, and what each captured graph may take of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import torch

from ... import InfeasibleError, format_bytes
from ..common.lasting_workspaces import lasting_bytes
from ..common.local_tensor import counted_parts
from .budget import Budget
from .memory import storage_bytes
from .optimizer_state import optimizer_state_bytes
from .optimizer_step import step_bytes, update_bytes
from .settings import Settings
from .shares import Need, shares

#: Of the budget, one part in so many is left to other code before it is known what that takes: a
#: loss that is worked out outside of the model, results in the caller's memory.
_ONE_PART_OUTSIDE_IN = 1000
_MOST_OUTSIDE = 1 << 16
#: And when the optimizer steps.
_LOSS_BYTES = 4096
#: Of an optimizer's state for each parameter: steps and the like, which are not all foreseen.
_NUMBERS_BYTES = 16


@dataclasses.dataclass(frozen=True)
class Afterwards:
    """What a step takes when its passes are over, while gradients are still there. ``step_bytes``:
    for a while, in the optimizer's own step. ``batches_ahead``: that are there before. ``free``:
    what the budget leaves to other code; of that little is there then, such as the loss.
    ``seen_bytes``: that all of it was seen to take more than is free, where that was too much.
    """

    step_bytes: int = 0
    batches_ahead: int = 0
    free: int = 0
    seen_bytes: int = 0

    def bytes_beside_gradients(self, batch_bytes: int) -> int:
        """What no other room is left for. A loop makes the next batch before it drops this one."""
        next_batch = 0 if self.batches_ahead else batch_bytes
        return max(0, max(self.step_bytes, next_batch) - self.free)


class GraphBytes(Protocol):
    """What is known of the bytes of a captured graph, as ``plans.planning.PricedGraph`` has it."""

    @property
    def keep_all_peak_bytes(self) -> int: ...
    @property
    def floor_bytes(self) -> int: ...
    @property
    def uncounted_bytes(self) -> int: ...
    @property
    def parameter_bytes(self) -> int: ...
    @property
    def input_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...


class BudgetedGraph(Protocol):
    """A captured graph that the budget is to have room for, as ``autograd.region.Region`` is."""

    @property
    def priced(self) -> GraphBytes: ...
    @property
    def decides(self) -> bool: ...
    @property
    def copied_gradient_bytes(self) -> int: ...
    @property
    def uncounted_bytes(self) -> int: ...
    @property
    def whole_bytes(self) -> int: ...


Region = TypeVar("Region", bound=BudgetedGraph)


class StepMembers(Protocol[Region]):
    """Which graphs run in one step, as ``autograd.steps.Steps`` learns it."""

    def of(self, region: Region) -> Mapping[Region, int]: ...


class BudgetAccount(Generic[Region]):
    """Shares for the graphs of each step, of what the budget leaves them.

    Worked out once, and again after ``invalidate()``: when there is another graph, when it is
    learnt which run together, when more gradients are kept.

    ``parameters``: gives those of the whole model, as it is now; none where it is not known, and
    those that the graphs use count.
    ``regions``: all there are, a list that its owner changes.
    """

    def __init__(self, settings: Settings, parameters: Callable[[], Iterable[torch.Tensor]],
                 regions: Sequence[Region], steps: StepMembers[Region]):
        self.budget: Budget = settings.budget
        self.held_bytes = 0
        self.outside_bytes = 0
        #: That steps were seen to take when their passes were over, where the budget was exceeded.
        self.between_bytes = 0
        #: Of copies to slower memory, where something moves.
        self.buffer_bytes = 0
        self._may_move = False
        self._parameters = parameters
        self._traced: list[torch.Tensor] = []
        self._device = "cpu"
        self._regions, self._steps = regions, steps
        self._settings = settings
        #: Of the optimizer, where its state moves: what stays, and what its step takes for a while.
        self._moving: tuple[int, int] | None = None
        self._optimizer_state: int | None = None
        self._trained_sizes: list[int] = []
        self._optimizer_step: int | None = None
        self._update: int | None = None
        self._fixed: int | None = None
        self._least: dict[Region, int] = {}
        self._shares: dict[Region, int | None] = {}
        self._room_bytes: dict[Region, int | None] = {}

    def invalidate(self) -> None:
        self._shares.clear()
        self._room_bytes.clear()
        self._fixed = None

    def set_budget(self, budget: Budget) -> None:
        """Another budget, from now on."""
        self.budget = budget
        self.invalidate()

    def reserve_gradients(self, held_bytes: int) -> None:
        """Gradients are kept from one step to the next. The most that was seen counts from then
        on: they leave a block while it is still there, so that it must leave them their room."""
        if held_bytes > self.held_bytes:
            self.held_bytes = held_bytes
            self.invalidate()

    def reserve_outside(self, outside_bytes: int) -> None:
        """Other code of the process takes so much of the budget during a step."""
        if outside_bytes != self.outside_bytes:
            self.outside_bytes = outside_bytes
            self.invalidate()

    def move_state(self, kept_bytes: int, step_bytes: int) -> None:
        """The optimizer's state lies in slower memory but for ``kept_bytes``; its step takes
        ``step_bytes`` for a while."""
        self._moving = kept_bytes, step_bytes
        self.invalidate()

    def keep_state(self) -> None:
        """The optimizer's state is in memory."""
        self._moving = None
        self.invalidate()

    @property
    def moves_state(self) -> bool:
        return self._moving is not None

    def move_values(self, may_move: bool) -> None:
        """Whether plans may move values, for which copies need buffers."""
        if may_move != self._may_move:
            self._may_move = may_move
            self._least.clear()
            self.invalidate()

    @property
    def held_buffer_bytes(self) -> int:
        """Of the buffers for copies: none where nothing may move."""
        return self.buffer_bytes if self._may_move or self.moves_state else 0

    def set_least(self, needs: Mapping[Region, int]) -> bool:
        """The fewest bytes that a search found for each of these graphs, which may be more than the
        bound below all plans: a share has room for them before any graph gets more. Returns whether
        that changes shares."""
        if len(needs) < 2 or all(self._least.get(region) == need for region, need in needs.items()):
            return False
        self._least.update(needs)
        self.invalidate()
        return True

    def set_traced_parameters(self, trained: Sequence[torch.Tensor], device: str) -> None:
        """Parameters that a graph trains on the device: they stand for the model's where those are
        not known."""
        self._traced, self._device = list(trained), device
        sizes = [parameter.nbytes for parameter in self._trained()]
        if sizes != self._trained_sizes:  # layers may be frozen, and trained later
            self._trained_sizes = sizes
            self._optimizer_state = self._optimizer_step = None
            self.invalidate()

    def note_state(self, present_bytes: int) -> None:
        """The optimizer was seen to hold so many bytes. More than was foreseen counts from now on,
        as of a class that could not be tried."""
        numbers = _NUMBERS_BYTES * len(self._trained_sizes)
        if self._moving is None and present_bytes > self._all_state_bytes + numbers:
            self._optimizer_state = present_bytes
            self.invalidate()

    def share(self, region: Region) -> int | None:
        """Bytes for a plan of the graph, its residents included; None without a limit. Raises
        InfeasibleError when the graphs of its step do not fit together."""
        if region not in self._shares:
            total = self.budget_bytes
            self._shares[region] = None if total is None else self._share(region, total)
        return self._shares[region]

    def smallest_sufficient(self, needs: Mapping[Region, int]) -> int:
        """The smallest budget by which each of these graphs has so many bytes as its share."""
        low, high = 0, 1
        while not self._has_enough(high, needs):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._has_enough(middle, needs) else (middle, high)
        return high

    def room_bytes(self, region: Region) -> int | None:
        """What the blocks of all graphs of a step may take together; None without a limit."""
        if region not in self._room_bytes:
            total = self.budget_bytes
            self._room_bytes[region] = None if total is None else self._room(region, total)
        return self._room_bytes[region]

    @property
    def budget_bytes(self) -> int | None:
        """The budget; a share is one of what the largest step takes when all is kept, and other
        code beside it."""
        steps = [self._steps.of(region) for region in self._regions if region.decides]
        lasting = self._lasting_bytes  # of which no plan can save a share
        largest = max((self._whole_bytes(step) - lasting for step in steps), default=0)
        found = self.budget.resolve(self._with_outside(largest))
        return found if found is None or self.budget.share is None else found + lasting

    @property
    def fixed_bytes(self) -> int:
        """What every step holds beside the residents of the graphs: as they share parameters,
        those of the largest are subtracted."""
        if self._fixed is None:
            planned = max((region.priced.parameter_bytes for region in self._regions), default=0)
            unused = max(0, storage_bytes(self._parameters()) - planned)
            inputs = max((region.priced.input_bytes for region in self._regions if region.decides),
                         default=0)
            self._fixed = (self.state_bytes + unused + self._lasting_bytes
                           + self._settings.batches_ahead * inputs)
        return self._fixed

    @property
    def _lasting_bytes(self) -> int:
        return lasting_bytes(self._device)

    @property
    def state_bytes(self) -> int:
        """What the optimizer holds in memory between two steps, or will hold."""
        return self._all_state_bytes if self._moving is None else self._moving[0]

    @property
    def _all_state_bytes(self) -> int:
        """With what lies in slower memory. Worked out once: plans stay as they are when the
        optimizer has made its state."""
        if self._optimizer_state is None:
            self._optimizer_state = optimizer_state_bytes(self._settings.optimizer, self._trained())
        return self._optimizer_state

    @property
    def update_bytes(self) -> int:
        """What the optimizer takes for a while where the backward pass updates parameters."""
        if self._settings.fused_update is None:
            return 0
        if self._update is None:
            self._update = update_bytes(self._settings.optimizer, self._device)
        return self._update

    @property
    def afterwards(self) -> Afterwards:
        """What follows a pass. Nothing of the optimizer where parameters are updated before."""
        outside = self._outside(self.budget_bytes or 0)
        return Afterwards(0 if self._settings.fused_update else self._all_step_bytes,
                          self._settings.batches_ahead, max(0, outside - _LOSS_BYTES),
                          max(0, self.between_bytes - outside))

    @property
    def _all_step_bytes(self) -> int:
        if self._moving is not None:
            return self._moving[1]
        if self._optimizer_step is None:
            self._optimizer_step = step_bytes(self._settings.optimizer, self._trained(),
                                              self._device)
        return self._optimizer_step

    @property
    def left_outside(self) -> float:
        """What the budget leaves to other code during a step."""
        total = self.budget_bytes
        return math.inf if total is None else self._outside(total)

    @property
    def existing_bytes(self) -> int:
        """What every step holds beside residents, with buffers for copies where values move."""
        return self.fixed_bytes + self.held_buffer_bytes

    def step_bytes_beside_blocks(self, graphs: Iterable[GraphBytes]) -> int:
        """What the optimizer's own step takes more than is there when the passes are over. Without
        a budget blocks with gradients stay whole meanwhile; what no plan counts is gone."""
        if self.budget_bytes is not None:
            return 0
        gone = sum(graph.uncounted_bytes for graph in graphs)
        return max(0, self.afterwards.step_bytes - gone)

    def describe_reserved(self) -> str:
        """What the budget holds beside the graphs, for messages."""
        copied = sum(region.copied_gradient_bytes for region in self._regions)
        held = self._described(self._reserved_parts(self.held_bytes + copied))
        budget = f"The budget of {self.budget}"
        return f"({budget} also holds {held}.)" if held else f"({budget} holds no more.)"

    def _reserved_parts(self, kept_gradient_bytes: int) -> dict[str, int]:
        """Bytes that the budget holds beside the graphs."""
        return {
            "of optimizer state": self.state_bytes,
            "of parameters and batches that no graph uses":
                self.fixed_bytes - self.state_bytes - self._lasting_bytes,
            "of workspaces that cuBLAS keeps": self._lasting_bytes,
            "of gradients that are kept": kept_gradient_bytes,
            "of buffers for copies": self.held_buffer_bytes,
            "that other code was seen to take in a step": self.outside_bytes,
        }

    @staticmethod
    def _described(parts: Mapping[str, int]) -> str:
        return ", ".join(f"{format_bytes(size)} {what}" for what, size in parts.items() if size)

    def _has_enough(self, total: int, needs: Mapping[Region, int]) -> bool:
        try:
            return all(self._share(region, total) >= need for region, need in needs.items())
        except InfeasibleError:
            return False

    def _share(self, region: Region, total: int) -> int:
        left = self._for_steps(region, total)
        self._require_room(region, left)
        step = self._steps.of(region)
        passes = [other for other, count in step.items() for _ in range(count)]
        again = max((other.priced.uncounted_bytes for other, count in step.items() if count > 1),
                    default=0)
        share = shares(left, [self._need(other) for other in passes], again)[passes.index(region)]
        return share - region.uncounted_bytes

    def _need(self, region: Region) -> Need:
        known = region.priced
        floor = max(known.floor_bytes, self._least.get(region, 0))
        keep_all = max(known.keep_all_peak_bytes, floor)
        return Need(keep_all + region.uncounted_bytes, floor + region.uncounted_bytes,
                    known.resident_bytes)

    def _room(self, region: Region, total: int) -> int:
        return (self._for_steps(region, total)
                - max(other.priced.resident_bytes for other in self._steps.of(region)))

    def _for_steps(self, region: Region, total: int) -> int:
        """What a budget leaves for the graphs of a step with their residents."""
        return (total - self.existing_bytes - self.held_bytes - self._outside(total)
                - self._further_input_bytes(region))

    def _outside(self, total: int) -> int:
        part = max(0, total - self._lasting_bytes) // _ONE_PART_OUTSIDE_IN
        return max(self.outside_bytes, min(_MOST_OUTSIDE, part))

    def _with_outside(self, inside: int) -> int:
        """The smallest budget that has ``inside`` bytes beside what it leaves to other code."""
        part = -(-inside // (_ONE_PART_OUTSIDE_IN - 1))
        return inside + max(self.outside_bytes, min(_MOST_OUTSIDE, part))

    def _further_input_bytes(self, region: Region) -> int:
        """Bytes of the inputs of a step's passes but the first of each graph: those are among its
        residents."""
        return sum((passes - 1) * other.priced.input_bytes
                   for other, passes in self._steps.of(region).items())

    def _whole_bytes(self, step: Mapping[Region, int]) -> int:
        """What a step takes when all values are kept, with the gradients that it is added to."""
        residents = max(region.priced.resident_bytes for region in step)
        blocks = sum(passes * (region.whole_bytes - region.priced.resident_bytes)
                     for region, passes in step.items())
        moved = self._all_state_bytes - self.state_bytes
        return self.fixed_bytes + moved + self.held_bytes + residents + blocks

    def _require_room(self, region: Region, left_bytes: int) -> None:
        residents = max((other.priced.resident_bytes for other in self._regions
                         if other.decides or other is region), default=0)
        if left_bytes > residents:
            return
        alone = ("parameters, optimizer state, inputs and buffers for copies"
                 if self.held_buffer_bytes else "parameters, optimizer state and inputs")
        parts = self._described({"of parameters, buffers and inputs": residents,
                                 **self._reserved_parts(self.held_bytes)})
        raise InfeasibleError(
            f"{alone} alone exceed the budget of {self.budget} by "
            f"{format_bytes(residents - left_bytes)}{_if_a_share_was_meant(self.budget)}: they are "
            f"{parts}.")

    def _trained(self) -> list[torch.Tensor]:
        return counted_parts(parameter for parameter in list(self._parameters()) or self._traced
                           if parameter.requires_grad)


def _if_a_share_was_meant(budget) -> str:
    """A number without a unit is one of bytes."""
    text = str(budget)
    is_small = text.replace(".", "", 1).isdigit() and float(text) <= 100
    return f" (which are bytes; for a share, write \"{text}%\")" if is_small else ""
