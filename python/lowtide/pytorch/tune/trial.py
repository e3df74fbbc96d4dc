"""What one combination takes: by plan, and by running it."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from ... import InfeasibleError, InputError, format_bytes
from ..autograd.session import Session
from ..common.inputs import arguments_of, device_of
from ..common.module_state import unchanged
from ..common.outputs import total
from ..planned_class import session_of
from ..wrap import wrap
from .combination import Combination
from .rows_of_batch import first_rows, number_of_rows


@dataclasses.dataclass(frozen=True)
class Measured:
    """Of a step that was run: its seconds, the most bytes, and the budget."""

    seconds: float
    peak: int
    budget: int

    @property
    def is_within(self) -> bool:
        return self.peak <= self.budget


@dataclasses.dataclass(frozen=True)
class Found:
    """What a plan for a combination says. ``seconds``: of the forward and the backward pass of a
    whole batch; None where no plan fits. ``peak``: bytes; of one that does not fit, those that it
    needs at least, None where that is not known. ``reason``: in words. ``keep_all_seconds``: those
    that it would take if every value were kept. ``size``: the largest batch or length, where that
    was searched for. ``measured``: where it was run. ``least_bytes``: of a step, by any plan.
    ``is_stopped``: whether Ctrl-C ended the search for the size.
    """

    combination: Combination
    seconds: float | None
    peak: int | None
    reason: str
    keep_all_seconds: float | None = None
    size: int | None = None
    measured: Measured | None = None
    least_bytes: int | None = None
    is_stopped: bool = False

    @property
    def fits(self) -> bool:
        return self.seconds is not None

    @property
    def keeps_all(self) -> bool:
        """Whether nothing costs time."""
        return self.seconds is not None and self.seconds == self.keep_all_seconds

    @property
    def known_seconds(self) -> float | None:
        """Of the same step: as measured, where it was run."""
        return self.seconds if self.measured is None else self.measured.seconds


@dataclasses.dataclass(frozen=True)
class Planned:
    """What was found, and the planned module, where one fits and is one that may run."""

    found: Found
    module: torch.nn.Module | None = None


def planned(model: torch.nn.Module, inputs: object, budget: int, combination: Combination,
            settings: Mapping[str, Any]) -> Planned:
    """By a plan within ``budget``; nothing is run. Raises InputError for what cannot be planned."""
    try:
        room = room_in_micro_batch(budget, model.parameters(), combination)
        module = wrap(model, micro_batch(inputs, combination), room, **settings,
                      **combination.settings)
    except InfeasibleError as error:
        return Planned(not_fitting(combination, error))
    found = found_of(session_with_plans(module), combination)
    # One that adds up gradients was planned beside them.
    return Planned(found, module if combination.micro_batches == 1 else None)


def room_in_micro_batch(budget: int, parameters: Iterable[torch.Tensor],
                        combination: Combination) -> int:
    """Of a budget: gradients that are added up are there while a micro-batch runs, and ``wrap``
    sees them only then. Raises InfeasibleError where they leave nothing."""
    if combination.micro_batches == 1:
        return budget
    held = sum(parameter.nbytes for parameter in parameters if parameter.requires_grad)
    if held >= budget:
        raise InfeasibleError(f"the gradients take {format_bytes(held)}, which is more than the "
                              f"budget of {format_bytes(budget)}")
    return budget - held


def not_fitting(combination: Combination, error: InfeasibleError) -> Found:
    """What the error says of it."""
    needed = getattr(error, "smallest_budget", None)
    return Found(combination, None, needed, first_sentence(error))


def first_sentence(error: Exception) -> str:
    """What fits in a table."""
    return (str(error).split(". ")[0].splitlines() or [type(error).__name__])[0]


def found_of(session: Session, combination: Combination, size: int | None = None) -> Found:
    """What the plan of a session says."""
    memory, predicted = session.memory(), session.figures.predicted()
    seconds = combination.micro_batches * predicted.seconds
    keep_all = combination.micro_batches * predicted.keep_all_seconds
    keeps_all = predicted.overhead < 1e-9
    room = (memory.budget or 0) - memory.planned_peak
    reason = (f"keeps every value; {format_bytes(max(room, 0))} stay free" if keeps_all else
              f"{predicted.overhead:.1%} more time than when every value is kept")
    return Found(combination, keep_all if keeps_all else seconds, memory.planned_peak, reason,
                 keep_all, size, least_bytes=session.figures.least_bytes())


def measured(model: torch.nn.Module, inputs: object, budget: int, combination: Combination,
             settings: Mapping[str, Any], updates: bool = False, steps: int = 3,
             module: torch.nn.Module | None = None) -> Measured:
    """By running it; the model, its gradients and the optimizer are as before afterwards.
    ``updates``: the optimizer steps, too, as it does where the backward pass updates. ``module``:
    the model as it was planned within the budget; None where it is to be planned now."""
    updates = updates or combination.fused_update
    with _restored(model, settings.get("optimizer") if updates else None):
        return measured_for_good(model, inputs, budget, combination, settings, updates, steps,
                                 module)


def measured_for_good(model: torch.nn.Module, inputs: object, budget: int, combination: Combination,
                      settings: Mapping[str, Any], updates: bool, steps: int,
                      module: torch.nn.Module | None = None) -> Measured:
    """The same, and what steps change stays changed."""
    part = micro_batch(inputs, combination)
    arguments, named = arguments_of(part)
    wrapped = module or wrap(model, part, budget, **settings, **combination.settings)
    session = session_with_plans(wrapped)
    times, peak = [], 0
    for _ in range(1 + steps):  # ops of passes beside gradients are planned in the first one
        began = time.perf_counter()
        for _ in range(combination.micro_batches):  # the parts of a batch take as long
            total(wrapped(*arguments, **named)).backward()
        if updates:
            settings["optimizer"].step()
        _synchronize(model)
        times.append(time.perf_counter() - began)
        memory = session.memory()
        peak = max(peak, memory.measured_peak - memory.outside)
        model.zero_grad()
    return Measured(statistics.median(times[1:]), peak, budget)


def micro_batch(inputs: object, combination: Combination) -> object:
    """What the model is called with at a time."""
    if combination.micro_batches == 1:
        return inputs
    rows = number_of_rows(inputs)
    assert rows is not None, "a batch without rows is not divided"
    return first_rows(inputs, rows // combination.micro_batches)


def session_with_plans(wrapped: torch.nn.Module) -> Session:
    """Of a planned module. Raises InputError where nothing was planned."""
    session = session_of(wrapped)
    assert isinstance(session, Session), "settings have the executor run the step"
    require_plans(session)
    return session


def require_plans(session: Session) -> None:
    """Raises InputError where nothing was planned."""
    if not session.has_plans:
        why = session.why_unplanned or (
            "no tensor that needs a gradient was captured; call the model with these inputs, and "
            "see whether it raises an error, runs under no_grad, or has frozen all parameters")
        raise InputError(f"{session.name} has no plan: {why}")


@contextlib.contextmanager
def _restored(model: torch.nn.Module, updating: torch.optim.Optimizer | None) -> Iterator[None]:
    """Gradients, and what an optimizer that updates changes, are as before afterwards."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    before = state = None
    if updating is not None:
        before = [parameter.detach().cpu().clone() for parameter in model.parameters()]
        state = copy.deepcopy(updating.state_dict())
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        with unchanged(model):
            yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient
        if updating is not None:
            with torch.no_grad():
                for parameter, value in zip(model.parameters(), before):
                    parameter.copy_(value)
            updating.load_state_dict(state)


def _synchronize(model: torch.nn.Module) -> None:
    device = device_of(model)
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)
