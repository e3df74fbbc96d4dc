"""``estimate`` for what needs PyTorch."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from ... import Estimate, InputError
from ...arguments import checked_seconds
from ..budget.budget import Budget
from ..capture import capture
from ..capture.meta import held_by
from ..common.inputs import arguments_of, tensors_in
from ..common.one_trace import ONE_TRACE_AT_A_TIME
from ..common.precision import require_precision
from ..dynamo.transformers_masks import known_masks_of_fake_call
from .configuration import is_configuration, model_of, shortly
from .example_batch import HOW_TO_GIVE_INPUTS, ExampleBatch, batches_for
from .fake_step import FakeStep, fake_step
from .op_peaks import OpPeaks
from .plan_of_step import with_plan
from .traced_step import TracedStep, trace_step

#: Of PyTorch's error where a normalization over a batch gets one value.
_NORMALIZED_ALONE = "more than 1 value per channel"


def estimate_model(
    subject: Any,
    example_inputs: object,
    *,
    optimizer: object,
    precision: str | None,
    budget: int | str | None,
    measure: bool | None,
    batch: int,
    length: int | None,
    time_limit: float,
) -> Estimate:
    """As ``lowtide.estimate``, for a module, a function or a configuration of transformers."""
    require_precision(precision)
    limit = None if budget is None else Budget.parse(budget)
    seconds = checked_seconds(time_limit, zero_is_none=True)
    if is_configuration(subject):
        subject = model_of(subject)
        if example_inputs is None:
            estimated = functools.partial(_estimated, subject, optimizer=optimizer,
                                          precision=precision, limit=limit, measure=measure,
                                          seconds=seconds)
            return _of_first_that_runs(batches_for(subject, batch, length), estimated,
                                       _name_of(subject), length)
    elif example_inputs is None:
        raise InputError("an estimate of a model needs example_inputs: a tuple, a dict by name, or "
                         "one tensor; on the device meta they take no memory")
    model = getattr(subject, "_orig_mod", subject)  # what torch.compile wrapped
    return _estimated(model, ExampleBatch(example_inputs, []), optimizer=optimizer,
                      precision=precision, limit=limit, measure=measure, seconds=seconds)


def _estimated(model: Callable, example: ExampleBatch, *, optimizer: object, precision: str | None,
               limit: Budget | None, measure: bool | None, seconds: float) -> Estimate:
    arguments, named = arguments_of(example.inputs)
    step = fake_step(model, arguments, named, optimizer, precision)
    op_peaks = _op_peaks(model, arguments, named, measure)
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    with known_masks_of_fake_call(forward, arguments, named), ONE_TRACE_AT_A_TIME:
        traced = trace_step(step, op_peaks)
    found = _told(_name_of(model), step, traced, [*_notes(op_peaks), *example.notes])
    if limit is None or limit.is_unlimited:
        return found
    with step.context():
        graph = capture(model, example.inputs)
    parameters = [tensor for tensor in held_by(model) if isinstance(tensor, torch.nn.Parameter)]
    return with_plan(found, graph, limit, optimizer, parameters, seconds)


def _of_first_that_runs(batches: Iterable[ExampleBatch],
                        estimated: Callable[[ExampleBatch], Estimate], name: str,
                        length: int | None) -> Estimate:
    """Of the first batch, of this length, that the model named so runs with. Without any, raises
    InputError for the first one, with what the user can do."""
    refused: list[tuple[ExampleBatch, Exception]] = []
    for example in batches:
        try:
            with _without_logs():
                return estimated(example)
        except Exception as error:
            refused.append((example, error))
    example, first = refused[0]
    if isinstance(first, InputError):
        raise first
    others = "give a larger batch, or " if _NORMALIZED_ALONE in str(first) else ""
    others += "" if length is None else f"give another length than {length}, or "
    raise InputError(f"{name} does not run on the batch that an estimate makes for it, of "
                     f"{_sizes_of(example)} ({type(first).__name__}: {shortly(first)}): "
                     f"{others}{HOW_TO_GIVE_INPUTS}") from first


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """PyTorch writes each refusal of an op to the log, before it is raised."""
    log = logging.getLogger(torch._subclasses.fake_tensor.__name__)
    before = log.disabled
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = before


def _sizes_of(made: ExampleBatch) -> str:
    return ", ".join(f"{name} {' x '.join(map(str, value.shape))}"
                     if isinstance(value, torch.Tensor) else name
                     for name, value in made.inputs.items())


def _op_peaks(model: Callable, arguments, named, measure: bool | None) -> OpPeaks | None:
    """By default ops are measured where the model has memory: then there is enough for one op."""
    tensors = [*tensors_in((arguments, named)), *held_by(model)]
    is_there = all(tensor.device.type != "meta" for tensor in tensors)
    if not (is_there if measure is None else measure):
        return None
    return OpPeaks(next((str(tensor.device) for tensor in tensors
                         if tensor.device.type != "meta"), "cpu"))


def _told(name: str, step: FakeStep, traced: TracedStep, notes: list[str]) -> Estimate:
    return Estimate(
        name=name, parameters=sum(parameter.numel() for parameter in step.parameters),
        whole=traced.whole, by_layer=traced.by_layer, by_kind=traced.by_kind,
        at_peak=traced.at_peak, peak_op=traced.peak.op, peak_phase=traced.peak.phase,
        notes=notes)


def _notes(op_peaks: OpPeaks | None) -> list[str]:
    notes = ["A step of eager PyTorch, traced on tensors without memory."]
    if op_peaks is None:
        return [*notes, "Workspaces of ops are not counted: measure=True measures them on this "
                        "machine."]
    notes.append("Workspaces were measured op by op.")
    if op_peaks.not_measured:
        notes.append(f"Without those of {', '.join(sorted(op_peaks.not_measured))}, which are too "
                     f"large here or refuse a batch of zeros.")
    return notes


def _name_of(model: Callable) -> str:
    if isinstance(model, torch.nn.Module):
        return type(model).__name__
    return getattr(model, "__name__", type(model).__name__)
