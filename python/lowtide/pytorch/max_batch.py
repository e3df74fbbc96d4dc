"""The largest batch that trains within a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import torch

from .. import InfeasibleError, InputError
from .inputs import arguments_of
from .memory import Memory
from .wrap import wrap


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
    **settings,
) -> Batch:
    """The largest batch whose training step has a plan within ``budget``, proven by running it.

    ``make_step(size)`` gives a module and its inputs (a tensor, tuple or dict) for a batch of that
    size; what the module returns is added up to a loss for the proof. Sizes are doubled from
    ``start`` until one has no plan, and halved in between; a step that takes more than the
    budget counts as one that does not fit. ``settings``: as of ``wrap`` (optimizer, strategy, time_limit,
    ...). Ctrl-C ends the search with the best size so far.

    Raises InfeasibleError when not even ``start`` fits.
    """
    if isinstance(budget, str) and budget.strip().endswith("%"):
        raise InputError("max_batch wants a budget in bytes: a share of what a step takes grows "
                         "with the batch, so that every batch would fit")
    search = _Search(make_step, dict(settings, budget=budget, report=report), report)
    try:
        search.run(start, limit)
    except KeyboardInterrupt:
        if search.best is None:
            raise
    if search.best is None:
        raise search.reason
    size, memory = search.best
    return Batch(size, memory, search.too_large)


class _Search:
    """``best``: the largest size that was run within the budget, and its memory. ``too_large``: the
    smallest that does not fit. ``reason``: why it does not."""

    def __init__(self, make_step, settings: Mapping, report):
        self._make_step, self._settings, self._report = make_step, settings, report
        self.best: tuple[int, Memory] | None = None
        self.too_large: int | None = None
        self.reason: Exception | None = None

    def run(self, start: int, limit: int) -> None:
        size = start
        while size <= limit and self._fits(size):
            size *= 2
        while self.best is not None and self.too_large is not None:
            size = (self.best[0] + self.too_large) // 2
            if size == self.best[0]:
                return
            self._fits(size)

    def _fits(self, size: int) -> bool:
        try:
            memory = self._proven(size)
        except InfeasibleError as error:
            self.too_large, self.reason = size, error
            self._say(f"a batch of {size} does not fit")
            return False
        self.best = size, memory
        self._say(f"a batch of {size} fits: {memory}")
        return True

    def _proven(self, size: int) -> Memory:
        model, inputs = self._make_step(size)
        wrapped = wrap(model, inputs, **self._settings)
        arguments, named = arguments_of(inputs)
        _total(wrapped(*arguments, **named)).backward()
        memory = wrapped.memory
        if memory.measured_peak - memory.outside > memory.budget:
            raise InfeasibleError(f"a step with a batch of {size} took {memory}")
        return memory

    def _say(self, message: str) -> None:
        if self._report is not None:
            self._report(message)


def _total(output) -> torch.Tensor:
    """The sum of all that has gradients in what a model returned."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(_plain(output))
              if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        raise InputError("nothing that the model returns has a gradient: there is no step to run")
    return sum(leaf.sum() for leaf in leaves)


def _plain(output):
    """Data classes and the like as dicts of what they hold."""
    if dataclasses.is_dataclass(output):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    if isinstance(output, Sequence) or isinstance(output, (torch.Tensor, Mapping)):
        return output
    return vars(output)
