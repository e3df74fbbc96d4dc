"""The largest batch that trains within a budget."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping

import torch

from .. import InfeasibleError, InputError
from ..arguments import checked_count
from .autograd.session import Session
from .budget.budget import Budget
from .budget.memory import Memory
from .common.inputs import arguments_of, tensors_in
from .common.outputs import total
from .common.progress import say
from .largest_size import Asked, LargestSize, SizeTried
from .planned_class import session_of
from .wrap import wrap

#: The largest size that is tried, unless another limit is given.
LARGEST = 1 << 20

#: Sizes that are padded alike, as to a multiple of 256, are not so many times apart.
_FAR = 1000


@dataclasses.dataclass(frozen=True)
class Batch:
    """``size``: the largest that was found to fit. ``memory``: of one step with it, run for proof.
    ``too_large``: the smallest size that was found not to fit; None when the search ended before.
    ``is_stopped``: whether Ctrl-C ended the search, so that a larger size may fit.
    """

    size: int
    memory: Memory
    too_large: int | None
    is_stopped: bool = False


def max_batch(
    make_step: Callable[[int], tuple[torch.nn.Module, object]],
    budget: int | str,
    *,
    start: int | None = None,
    limit: int = LARGEST,
    report: Callable[[str], None] | None = None,
    verbose: bool = True,
    **settings,
) -> Batch:
    """The largest batch whose training step has a plan within ``budget``, proven by running it.

    ``make_step(size)`` gives a module and its inputs (a tensor, tuple or dict) for a batch of that
    size; what the module returns is added up to a loss for the proof. What a step needs at least
    is nearly linear in its batch, so that a line through what two sizes need tells which one to
    try; each that is tried is captured and planned, and run if it fits. A step that takes more than
    the budget counts as one that does not fit. The first size is ``start``, or without one 1, or 2
    where the model does not run with 1, as batch norm does not. ``settings``: as of ``wrap``
    (optimizer, strategy, time_limit, ...). What is tried and what came of it is told to ``report``,
    or where there is none on standard error unless ``verbose`` is False. Ctrl-C ends the search
    with the best size so far.

    On the ranks of a mesh, ``lowtide.tune`` with the goal "batch" finds it.

    Raises InfeasibleError when not even ``start`` fits. An error of ``make_step`` or of the model
    is raised as it is, with a note that names the size that was tried and the largest that fitted;
    ``largest_batch`` of the error is the Batch of the latter, or None.
    """
    return search_largest(make_step, budget, None, Asked(), start=start, limit=limit,
                          report=report, verbose=verbose, **settings)


def search_largest(
    make_step: Callable[[int], tuple[torch.nn.Module, object]],
    budget: int | str,
    note: Callable[[int, torch.nn.Module], None] | None,
    asked: Asked,
    *,
    start: int | None = None,
    limit: int = LARGEST,
    report: Callable[[str], None] | None = None,
    verbose: bool = True,
    **settings,
) -> Batch:
    """As ``max_batch``. ``note``: is told of each size that fits, with the module that was planned
    and run."""
    limit = checked_count("limit", limit, 1)
    if start is not None and checked_count("start", start, 1) > limit:
        raise InputError(f"start must be at most limit, which is {limit}, not {start}")
    if not callable(make_step) or isinstance(make_step, torch.nn.Module):
        raise InputError(f"{asked.caller} wants a function of the {asked.size} that returns a "
                         f"model and its inputs, such as lambda {asked.size}: (model, "
                         f"inputs_of({asked.size})), not a {type(make_step).__name__}")
    if settings.get("mesh") is not None:
        raise InputError("max_batch looks for a size in one process: for the ranks of a mesh use "
                         "lowtide.tune(make_step, None, budget, goal=\"batch\", mesh=mesh), on all "
                         "ranks")
    parsed = Budget.parse(budget, may_be_share=False)
    if parsed.is_unlimited:
        raise InputError("max_batch wants a budget in bytes, as without a limit every batch fits")
    if parsed.share is not None:
        raise InputError("max_batch wants a budget in bytes: a share of what a step takes grows "
                         "with the batch, so that every batch would fit")
    settings |= {"budget": parsed, "report": report, "verbose": verbose}
    steps = _Steps(make_step, settings, note, asked)
    search = LargestSize(steps.run, report or (say if verbose else None), asked)
    is_stopped = False
    try:
        search.run(start, limit)
    except KeyboardInterrupt:
        if search.largest is None:
            raise
        is_stopped = True
    except Exception as error:
        with contextlib.suppress(AttributeError):  # of a class with slots
            error.largest_batch = _batch(search, steps)  # type: ignore[attr-defined]
        raise
    best = _batch(search, steps)
    if best is None:
        assert search.reason is not None, "a size that does not fit says why"
        raise search.reason
    return dataclasses.replace(best, is_stopped=is_stopped)


def _batch(search: LargestSize, steps: _Steps) -> Batch | None:
    """What is known by now; None when no size fitted yet."""
    if search.largest is None:
        return None
    return Batch(search.largest, steps.memory[search.largest], search.too_large)


class _Steps:
    """One step of each size, planned and run. ``memory``: of those that fit, by size."""

    def __init__(self, make_step: Callable, settings: Mapping, note: Callable | None,
                 asked: Asked):
        self._make_step, self._settings, self._note = make_step, settings, note
        self._asked = asked
        self._alike: _StepOfSize | None = None
        self.memory: dict[int, Memory] = {}

    def run(self, size: int) -> SizeTried:
        model, inputs = step_of_size(self._make_step, size, self._asked)
        wrapped = wrap(model, inputs, **self._settings)
        arguments, named = arguments_of(inputs)
        total(wrapped(*arguments, **named)).backward()
        memory = wrapped.memory
        wrapped.zero_grad()  # the next trial may be of this model again
        if memory.measured_peak - memory.outside > memory.budget:
            raise InfeasibleError(f"a step with a {self._asked.size} of {size} took {memory}")
        session = session_of(wrapped)
        needs = session.figures.least_bytes() if isinstance(session, Session) else None
        self._require_another(_StepOfSize(size, _shapes_of(inputs), needs))
        if self._note is not None:
            self._note(size, wrapped)
        self.memory[size] = memory
        return SizeTried(memory.budget, needs, str(memory))

    def _require_another(self, step: _StepOfSize) -> None:
        """Of a step that is the same for all sizes, every size would fit."""
        first = self._alike
        if first is None or step.needs is None or step != dataclasses.replace(first,
                                                                              size=step.size):
            self._alike = step
        elif step.size >= _FAR * first.size:
            raise InputError(f"{self._asked.caller} wants a function of the {self._asked.size}, "
                             f"and for {first.size} and {step.size} it gives the same step, with "
                             f"inputs of the shapes {step.shapes}: make inputs of the size that "
                             f"it is given")


@dataclasses.dataclass(frozen=True)
class _StepOfSize:
    """Of a size: the shapes of its inputs, and the bytes that a step needs at least."""

    size: int
    shapes: tuple[tuple[int, ...], ...]
    needs: int | None


def _shapes_of(inputs: object) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors_in(inputs))


def step_of_size(make_step: Callable, size: int, asked: Asked) -> tuple[torch.nn.Module, object]:
    """Raises InputError where the function gives something else."""
    made = make_step(size)
    if not isinstance(made, (tuple, list)) or len(made) != 2:
        raise InputError(f"{asked.caller} wants a function of the {asked.size} that returns a "
                         f"model and its inputs, (model, inputs), and it returned a "
                         f"{type(made).__name__}")
    model, inputs = made
    return model, inputs
