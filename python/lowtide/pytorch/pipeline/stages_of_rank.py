"""The stages that one rank of a pipeline trains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.pipelining import PipelineStage

from ... import InputError
from .agreement import Agreement
from .arguments import tensors_of
from .decided import Decided
from .micro_batches import require_alike
from .planned_stage import PlannedStage
from .report import StageReport, report_of
from .schedules import SCHEDULES
from .stage_examples import Types
from .step_time import StepTime


class StagesOfRank:
    """What ``pipeline`` returns: the stages of this rank. ``predicted``: how long a step takes;
    ``stages``: of all ranks, what was planned."""

    def __init__(self, modules: Sequence[PlannedStage], numbers: Sequence[int], decided: Decided,
                 agreement: Agreement, stages: Sequence[StageReport],
                 rank_bytes: Sequence[int], predicted: StepTime, types: tuple[Types, Types],
                 device: torch.device):
        self.stages, self.predicted = tuple(stages), predicted
        self._modules, self._numbers, self._decided = list(modules), list(numbers), decided
        self._agreement, self._rank_bytes, self._types = agreement, list(rank_bytes), types
        self._seconds = 0.0
        made = [_pipeline_stage(module, number, decided, agreement, device)
                for module, number in zip(modules, numbers)]
        kind: Any = SCHEDULES[decided.schedule]
        self._schedule = kind(made if decided.schedule == "interleaved1f1b" else made[0],
                              decided.shape.micro_batches, loss_fn=_already_a_loss)

    def step(self, inputs=None, targets=None) -> torch.Tensor:
        """Forward and backward passes of all micro-batches of a batch; the losses of all
        micro-batches, on each rank. Gradients are added to ``.grad`` of this rank's parameters, in
        the order of the micro-batches, and the sum is divided by their number: so ``.grad`` is to
        be None or zero before. Only the first rank needs the inputs, only the last the targets;
        others may be given None.

        Raises InputError for batches of other sizes than the pipeline was made with.
        """
        begin = time.perf_counter()
        for module in self._modules:
            module.session.restart_clock()
        arguments, named = self._arguments(inputs, targets)
        losses: list[torch.Tensor] = []
        self._schedule.step(*arguments, losses=losses, return_outputs=False, **named)
        for module in self._modules:
            module.session.release()
        self._seconds = time.perf_counter() - begin
        return self._shared(losses)

    def parameters(self) -> list[torch.nn.Parameter]:
        """Those that this rank trains, for its optimizer."""
        return [parameter for module in self._modules for parameter in module.blocks.parameters()]

    def named_parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """The same by the names of the whole model."""
        return [(module.blocks.whole_key(key), parameter) for module in self._modules
                for key, parameter in module.blocks.named_parameters()]

    def zero_grad(self) -> None:
        """No parameter of this rank has a gradient afterwards."""
        for parameter in self.parameters():
            parameter.grad = None

    def train(self, mode: bool = True) -> StagesOfRank:
        """As of a module. A pipeline is planned in the mode in which its blocks are when it is
        made."""
        for module in self._modules:
            module.blocks.train(mode)
        return self

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state of this rank's blocks, by the keys of the whole model: those of all ranks
        together are its state."""
        return {module.blocks.whole_key(key): value for module in self._modules
                for key, value in module.blocks.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Of the whole model or of this rank's blocks. Raises InputError for a key that is
        missing."""
        for module in self._modules:
            keys = {key: module.blocks.whole_key(key) for key in module.blocks.state_dict()}
            missing = [whole for whole in keys.values() if whole not in state]
            if missing:
                raise InputError(f"the state has no {missing[0]}, which this rank trains: give the "
                                 f"state of the whole model, or of the same cuts "
                                 f"({self.cuts})")
            module.blocks.load_state_dict({key: state[whole] for key, whole in keys.items()})

    @property
    def cuts(self) -> list[int]:
        """The positions of the first blocks of the stages but the first, as ``pipeline`` takes
        them."""
        return self._decided.cuts[1:-1]

    @property
    def planned_bytes(self) -> int:
        """The most that this rank is to take at one time."""
        return self._rank_bytes[self._agreement.rank]

    @property
    def measured_bubble(self) -> float:
        """The share of the last step in which this rank ran no pass."""
        busy = sum(module.session.busy for module in self._modules)
        return 1 - busy / self._seconds if self._seconds else 0.0

    def explain(self, most: int = 10) -> str:
        """The stages of all ranks: blocks, passes in flight, bytes, times and what runs again."""
        budget = self._decided.budget_bytes
        limit = "none" if budget is None else f"{budget} bytes"
        return report_of(self.stages, self._rank_bytes, limit, self.predicted, most)

    def _arguments(self, inputs, targets) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
        """What the schedule wants on this rank. What is given is checked wherever it is, so that
        ranks which are given the same batch refuse it together."""
        has_first = self._numbers[0] == 0
        has_last = self._decided.is_last(self._numbers[-1])
        arguments = self._checked(inputs, 0, "inputs", "first", has_first)
        target = self._checked(targets, 1, "targets", "last", has_last)
        named = {"target": target[0], "targets": target[0]} if has_last else {}
        return (arguments if has_first else ()), named

    def _checked(self, given, position: int, what: str, where: str,
                 is_wanted: bool) -> tuple[torch.Tensor, ...]:
        if given is None and not is_wanted:
            return ()
        found = tensors_of(given, f"the {where} rank of a pipeline wants {what}")
        require_alike(found, self._types[position], self._decided.shape.micro_batches, what)
        return found

    def _shared(self, losses: Sequence[torch.Tensor]) -> torch.Tensor:
        number = self._decided.shape.micro_batches
        own = (torch.stack([loss.detach() for loss in losses]).float() if losses
               else torch.zeros(number))
        return self._agreement.sent_from_last(own)


def _pipeline_stage(module: PlannedStage, number: int, decided: Decided, agreement: Agreement,
                    device: torch.device) -> PipelineStage:
    results = ([torch.zeros((), device="meta", requires_grad=True)] if decided.is_last(number)
               else [one.on("meta") for one in decided.inputs_of(number + 1)])
    return PipelineStage(module, number, decided.shape.stages, device,
                         input_args=tuple(one.on("meta") for one in decided.inputs_of(number)),
                         output_args=tuple(results), group=agreement.group)


def _already_a_loss(result: torch.Tensor, _targets) -> torch.Tensor:
    """The last stage computes the loss, so that it is planned."""
    return result
