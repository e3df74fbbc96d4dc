"""The largest batch that trains within a budget."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Mapping

import torch

from .. import InfeasibleError, InputError
from ..arguments import checked_count
from .autograd.session import Session
from .budget.budget import Budget
from .budget.memory import Memory
from .common.inputs import arguments_of
from .common.outputs import total
from .common.progress import say
from .planned_class import session_of
from .wrap import wrap

#: How many times the largest size that fits is tried at most: far from there a line says little.
_MOST_GROWTH = 8


@dataclasses.dataclass(frozen=True)
class Batch:
    """``size``: the largest that was found to fit. ``memory``: of one step with it, run for proof.
    ``too_large``: the smallest size that was found not to fit; None when the search ended before.
    """

    size: int
    memory: Memory
    too_large: int | None


def max_batch(
    make_step: Callable[[int], tuple[torch.nn.Module, object]],
    budget: int | str,
    *,
    start: int = 1,
    limit: int = 1 << 20,
    report: Callable[[str], None] | None = None,
    verbose: bool = True,
    **settings,
) -> Batch:
    """The largest batch whose training step has a plan within ``budget``, proven by running it.

    ``make_step(size)`` gives a module and its inputs (a tensor, tuple or dict) for a batch of that
    size; what the module returns is added up to a loss for the proof. What a step needs at least
    is nearly linear in its batch, so that a line through what two sizes need tells which one to
    try; each that is tried is captured and planned, and run if it fits. A step that takes more than
    the budget counts as one that does not fit. ``settings``: as of ``wrap`` (optimizer, strategy,
    time_limit, ...). What is tried and what came of it is told to ``report``, or where there is
    none on standard error unless ``verbose`` is False. Ctrl-C ends the search with the best size so
    far.

    Raises InfeasibleError when not even ``start`` fits. An error of ``make_step`` or of the model
    is raised as it is, with a note that names the size that was tried and the largest that fitted;
    ``largest_batch`` of the error is the Batch of the latter, or None.
    """
    return search_largest(make_step, budget, None, start=start, limit=limit, report=report,
                          verbose=verbose, **settings)


def search_largest(
    make_step: Callable[[int], tuple[torch.nn.Module, object]],
    budget: int | str,
    note: Callable[[int, torch.nn.Module], None] | None,
    *,
    start: int = 1,
    limit: int = 1 << 20,
    report: Callable[[str], None] | None = None,
    verbose: bool = True,
    **settings,
) -> Batch:
    """As ``max_batch``. ``note``: is told of each size that fits, with the module that was planned
    and run."""
    start, limit = checked_count("start", start, 1), checked_count("limit", limit, 1)
    if start > limit:
        raise InputError(f"start must be at most limit, which is {limit}, not {start}")
    parsed = Budget.parse(budget)
    if parsed.is_unlimited:
        raise InputError("max_batch wants a budget in bytes, as without a limit every batch fits")
    if parsed.share is not None:
        raise InputError("max_batch wants a budget in bytes: a share of what a step takes grows "
                         "with the batch, so that every batch would fit")
    settings |= {"budget": parsed, "report": report, "verbose": verbose}
    search = _Search(make_step, settings, report or (say if verbose else None), note)
    try:
        search.run(start, limit)
    except KeyboardInterrupt:
        if search.best is None:
            raise
    if search.best is None:
        raise search.reason
    return search.best


class _Search:
    """``largest``: the largest size that was run within the budget, and its memory. ``too_large``:
    the smallest that does not fit. ``reason``: why it does not."""

    def __init__(self, make_step, settings: Mapping, report, note):
        self._make_step, self._settings, self._report = make_step, settings, report
        self._note = note
        self.largest: tuple[int, Memory] | None = None
        self.too_large: int | None = None
        self.reason: Exception | None = None
        self._needs: dict[int, int] = {}  # by size: bytes at least
        self._step = 1

    @property
    def best(self) -> Batch | None:
        """What is known by now; None when no size fitted yet."""
        return None if self.largest is None else Batch(*self.largest, self.too_large)

    def run(self, start: int, limit: int) -> None:
        size: int | None = start
        while size is not None:
            self._fits(size)
            size = self._next(limit)

    def _next(self, limit: int) -> int | None:
        """The size to try now; None when nothing is left to find out."""
        if self.largest is None:
            return None
        low = self.largest[0]
        high = limit + 1 if self.too_large is None else min(self.too_large, limit + 1)
        if high - low < 2:
            return None
        guess = self._guess(low, high)
        if low < guess < high:
            return guess
        # The line is off here: away from where it was wrong, by steps that grow.
        step, self._step = self._step, 2 * self._step
        middle = (low + high) // 2
        return min(low + step, middle) if guess <= low else max(high - step, middle)

    def _guess(self, low: int, high: int) -> int:
        """The largest size by the line through what two sizes need: one that fits and one that does
        not, or the two largest that fit."""
        known = sorted(size for size in self._needs if size in (low, self.too_large) or size < low)
        if len(known) < 2:
            return 2 * low if self.too_large is None else (low + high) // 2
        size, larger = known[-2:]
        slope = max(1.0, (self._needs[larger] - self._needs[size]) / (larger - size))
        more = (self.largest[1].budget - self._needs[size]) / slope
        return min(size + math.floor(more), _MOST_GROWTH * low)

    def _fits(self, size: int) -> bool:
        self._say(f"trying a batch of {size}")
        try:
            memory = self._run_step(size)
        except InfeasibleError as error:
            self.too_large, self.reason = size, error
            needed = getattr(error, "smallest_budget", None)
            if needed is not None:
                self._needs[size] = needed
            self._say(f"a batch of {size} does not fit")
            return False
        except Exception as error:
            self._note_size(error, size)
            raise
        self.largest = size, memory
        self._say(f"a batch of {size} fits: {memory}")
        return True

    def _note_size(self, error: Exception, size: int) -> None:
        """Tells the user of an error that is no matter of the budget how far the search came."""
        largest = "none was tried before" if self.largest is None else (
            f"the largest that fitted before is {self.largest[0]}")
        error.add_note(f"max_batch tried a batch of {size}; {largest}")
        with contextlib.suppress(AttributeError):  # of a class with slots
            error.largest_batch = self.best  # type: ignore[attr-defined]

    def _run_step(self, size: int) -> Memory:
        made = self._make_step(size)
        if not isinstance(made, (tuple, list)) or len(made) != 2:
            raise InputError(f"max_batch wants a function of the batch size that returns a model "
                             f"and its inputs, (model, inputs), and it returned a "
                             f"{type(made).__name__}")
        model, inputs = made
        wrapped = wrap(model, inputs, **self._settings)
        arguments, named = arguments_of(inputs)
        total(wrapped(*arguments, **named)).backward()
        memory = wrapped.memory
        wrapped.zero_grad()  # the next trial may be of this model again
        if memory.measured_peak - memory.outside > memory.budget:
            raise InfeasibleError(f"a step with a batch of {size} took {memory}")
        session = session_of(wrapped)
        if isinstance(session, Session):
            self._needs[size] = session.figures.least_bytes()
        if self._note is not None:
            self._note(size, wrapped)
        return memory

    def _say(self, message: str) -> None:
        if self._report is not None:
            self._report(message)
