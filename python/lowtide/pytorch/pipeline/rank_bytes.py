"""What a rank of a pipeline holds beside the blocks and the waiting passes of its stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from ... import format_bytes
from ..budget.memory import storage_bytes
from ..budget.optimizer_state import optimizer_state_bytes
from ..budget.optimizer_step import step_bytes

#: Of the budget, one part in so many is left to code outside of the stages, and no more than so
#: many bytes: losses, tickets, messages of the schedule.
_ONE_PART_OUTSIDE_IN, _MOST_OUTSIDE = 1000, 1 << 16


@dataclasses.dataclass(frozen=True)
class Messages:
    """Bytes for one micro-batch: what comes from the stage before, or from the data loader where
    the stage is the first; what goes to the next stage, 0 at the last; the targets, at the last."""

    inputs: int
    results: int
    targets: int


@dataclasses.dataclass(frozen=True)
class StageBytes:
    """What a stage holds. ``state``: parameters and buffers; ``gradients``: of what is trained;
    ``optimizer``: its state; ``optimizer_step``: for a while, when no pass waits; ``messages``:
    buffers of torch.distributed.pipelining, whole batches, and results that wait to be sent."""

    state: int
    gradients: int
    optimizer: int
    optimizer_step: int
    messages: int

    @property
    def fixed(self) -> int:
        """While passes run."""
        return self.state + self.gradients + self.optimizer + self.messages

    def __add__(self, other: StageBytes) -> StageBytes:
        return StageBytes(*(one + two for one, two in zip(dataclasses.astuple(self),
                                                          dataclasses.astuple(other))))

    def __str__(self) -> str:
        parts = {"of parameters and buffers": self.state, "of gradients": self.gradients,
                 "of optimizer state": self.optimizer, "of messages": self.messages}
        return ", ".join(f"{format_bytes(size)} {what}" for what, size in parts.items() if size)


def held_bytes(modules: Iterable[torch.nn.Module], optimizer, device: str) -> StageBytes:
    """Of a stage with these modules, messages left out. ``optimizer``: as for
    ``budget.optimizer_state.optimizer_state_bytes``."""
    tensors = [tensor for module in modules
               for tensor in (*module.parameters(), *module.buffers())]
    trained = [tensor for tensor in tensors if tensor.requires_grad]
    return StageBytes(storage_bytes(tensors), storage_bytes(trained),
                      optimizer_state_bytes(optimizer, trained),
                      step_bytes(optimizer, trained, device), 0)


def message_bytes(messages: Messages, micro_batches: int, waiting: int, is_first: bool) -> int:
    """Of a stage of which ``waiting`` passes wait at one time.

    torch.distributed.pipelining holds a buffer for the inputs and for the gradients of the results
    of each micro-batch for as long as it lives. Results wait for their backward pass, and the
    gradients of inputs until they were sent: at most as many as pass without a wait for the sends.
    """
    sent = 0 if is_first else (1 + min(micro_batches, max(2, waiting))) * messages.inputs
    return (micro_batches * (messages.inputs + messages.results + messages.targets)
            + waiting * messages.results + sent)


def outside_bytes(budget_bytes: int) -> int:
    """What a budget leaves to other code."""
    return min(_MOST_OUTSIDE, budget_bytes // _ONE_PART_OUTSIDE_IN)


def with_outside(inside_bytes: int) -> int:
    """The smallest budget that has so many bytes beside what it leaves to other code."""
    budget = inside_bytes + min(_MOST_OUTSIDE, -(-inside_bytes // (_ONE_PART_OUTSIDE_IN - 1)))
    while budget - 1 - outside_bytes(budget - 1) >= inside_bytes:
        budget -= 1
    return budget
