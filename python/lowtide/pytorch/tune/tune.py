"""The combination that reaches a goal best, within a budget."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ... import Error, InputError, _runtime, format_bytes
from ...arguments import checked_duration
from ..budget.budget import Budget
from ..budget.offload import Offload
from ..common.progress import say
from ..largest_size import Asked
from .combination import Combination
from .combinations import Allowed, combinations
from .deepspeed import from_deepspeed
from .mesh_search import MeshSearch, TuningRanks
from .mesh_size_search import MeshSizeSearch
from .searches import SizeSearch, StepSearch, TuningSearch
from .trial import Found, first_sentence
from .tuned import SIZES, Tuned

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

#: The goals: any combination that fits, changed as little as possible; the shortest step; the
#: largest size for which there is one.
GOALS = ("fits", "fastest", *SIZES)
#: Of the memory that is free, what a budget is where none is given.
_SHARE_OF_FREE = 0.9

#: How many are run where the fastest is asked for.
_FINALISTS = 3

#: Times as slow even with every value kept: more memory for it helps nothing.
_FAR_BEHIND = 1.5

#: Combinations whose steps differ by less than this share are ranked by how little they change.
_SAME_TIME = 0.01


def tune(
    model: torch.nn.Module | Callable[[int], tuple[torch.nn.Module, object]],
    example_inputs: object = None,
    budget: int | str | None = None,
    *,
    goal: str = "fastest",
    optimizer: torch.optim.Optimizer | type | str | None = None,
    precisions: Sequence[str] | None = None,
    ways: Sequence[str] | None = None,
    stashes: Sequence[str] | None = None,
    offload: Offload | str | os.PathLike[str] | None = None,
    step_seconds: float | None = None,
    deepspeed: Mapping | str | os.PathLike[str] | None = None,
    mesh: DeviceMesh | None = None,
    shardings: Sequence[str] | None = None,
    time_limit: float = 10.0,
    report: Callable[[str], None] | None = None,
    verbose: bool = True,
) -> Tuned:
    """Which ways to need less memory to combine for a training step, ranked, the first one run.

    ``goal``: ``"fastest"``, the shortest step within the budget, however much of it that takes;
    ``"fits"``, whatever changes the training least; ``"batch"`` or ``"length"``, the largest size:
    ``model`` is then a function of a size that gives a module and its inputs, as of ``max_batch``.
    ``budget``: bytes, or None for nine tenths of what the device has free. ``optimizer``: as of
    ``wrap``; ``fused_update`` is tried only with an object.

    Rerunning ops and exact stashes change nothing and are always allowed. Of the others, allowed
    are: ``precisions`` of autocast beside the model's own (``("bf16",)`` unless given); ``ways``,
    of ``"micro_batches"`` (also only for inputs with a batch that divides), ``"slices"`` and
    ``"fused_update"`` (all unless given); ``stashes`` that lose something (none unless given);
    ``offload`` as of ``wrap``. Each combination is planned, at most
    ``time_limit`` seconds for a graph. Where one keeps every value, none of the same precision can
    be faster, and the others of it are left out. ``step_seconds``: what takes longer is ranked
    behind what does not. ``deepspeed``: a configuration of DeepSpeed, or its file: what it asks for
    is allowed, as ``from_deepspeed`` reads it, with the options above that are given for what it
    says nothing of. ``mesh``: as of ``wrap``, on all ranks of which this call is made, each with
    its own inputs; ``shardings`` (all unless given) are then tried too, and all ranks get the same
    ranking, by the rank that takes the most; a size is that of each rank. Nothing moves there.

    Times are those of the forward and the backward pass of a batch, from ops that were measured on
    this machine; of a run, with the update where one of the first makes it in its backward pass.
    The first is run for a few steps, for the goal "fastest" the first three, which are then ranked
    by what they took; the model and the optimizer are as before afterwards. Ctrl-C ends with the
    ranking of those that were tried. Raises InputError for a model that cannot be planned, for
    goals, ways or keys that are none, and for options that contradict ``deepspeed``.
    """
    if goal not in GOALS:
        raise InputError(f"there is no goal {goal!r}: choose from {', '.join(GOALS)}")
    if goal in SIZES and isinstance(model, torch.nn.Module):
        raise InputError(f"the goal {goal!r} wants a function of a size that gives a module and "
                         f"its inputs in place of a model")
    if goal not in SIZES and not isinstance(model, torch.nn.Module):
        raise InputError(f"the goal {goal!r} wants a module and example_inputs, not "
                         f"{type(model).__name__}")
    if step_seconds is not None:
        step_seconds = checked_duration("step_seconds", step_seconds)
    if mesh is not None and offload is not None:
        raise InputError("moves to slower memory are not tried on the ranks of a mesh: leave "
                         "offload out, or give it to lowtide.wrap, and allow "
                         "ways=(\"fused_update\",) and shardings=(\"full\",), which need the least "
                         "memory on each rank; or leave mesh out")
    given = {"precisions": precisions, "ways": ways, "stashes": stashes,
             "offload": Offload.parse(offload), "shardings": shardings}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    adopted = None if deepspeed is None else from_deepspeed(deepspeed).beside(options)
    if adopted is not None and mesh is not None:
        adopted = adopted.on_ranks()
    allowed = Allowed(**options) if adopted is None else adopted.allowed
    settings = {"optimizer": optimizer, "time_limit": time_limit, "report": report,
                "verbose": verbose}
    tell = report or (say if verbose else _silent)
    search = _search(model, example_inputs, settings, goal, mesh)
    limit = _budget_bytes(budget, search)
    found = _tried(search, limit, allowed, optimizer, tell)
    ranked = _Proof(search, limit, goal, step_seconds, tell).ranked(found)
    return Tuned(goal, limit, ranked, {} if adopted is None else adopted.notes, mesh)


def _silent(_: str) -> None:
    pass


def _search(model, example_inputs: object, settings: Mapping, goal: str,
            mesh: DeviceMesh | None) -> TuningSearch:
    if goal in SIZES:
        if example_inputs is not None:
            raise InputError("a function of a size gives the inputs: leave example_inputs out")
        asked = Asked("tune", goal)
        return (SizeSearch(model, settings, asked) if mesh is None else
                MeshSizeSearch(model, settings, asked, TuningRanks.of(mesh)))
    if example_inputs is None:
        raise InputError("tune wants example_inputs: what the model is called with")
    if mesh is not None:
        return MeshSearch(model, example_inputs, settings, TuningRanks.of(mesh))
    return StepSearch(model, example_inputs, settings, _finalists(goal))


def _finalists(goal: str) -> int:
    """How many are run."""
    return _FINALISTS if goal == "fastest" else 1


def _budget_bytes(given: int | str | None, search: TuningSearch) -> int:
    if given is None:
        free, _ = _runtime.device_memory(str(search.device))
        return search.agreed(int(_SHARE_OF_FREE * free))
    budget = Budget.parse(given, may_be_share=False)
    if budget.bytes is None:
        raise InputError(f"tune wants a budget in bytes, or None for what is free, not {given!r}: "
                         f"a share is of what a step takes, which differs by combination")
    return budget.bytes


def _tried(search: TuningSearch, budget: int, allowed: Allowed, optimizer: object,
           tell: Callable[[str], None]) -> list[Found]:
    can_fuse = isinstance(optimizer, torch.optim.Optimizer)
    found: list[Found] = []
    settled: set[Combination] = set()  # precisions and shardings where nothing better is found
    try:
        for combination in combinations(allowed, search.rows, can_fuse, search.is_on_ranks):
            if _alone(combination) in settled:
                continue
            found.append(_planned(search, budget, combination, is_first=not found))
            tell(f"{combination.label}: {found[-1].reason}")
            if found[-1].is_stopped:
                raise KeyboardInterrupt
            if _settles(found[-1], found):
                settled |= _settled_by(combination, allowed)
    except KeyboardInterrupt:
        if not found:
            raise
        tell(f"stopped: {len(found)} combinations were tried")
    return found


def _settles(one: Found, found: Sequence[Found]) -> bool:
    """Whether no other combination of the same precision would be better: it keeps every value, or
    the precision alone would be far behind another combination if it did."""
    if one.size is not None or one.keep_all_seconds is None:
        return False
    fastest = min(other.seconds for other in found if other.seconds is not None)
    is_alone = one.combination == _alone(one.combination)
    return one.keeps_all or (is_alone and one.keep_all_seconds > _FAR_BEHIND * fastest)


def _alone(one: Combination) -> Combination:
    """The precision and the sharding, and nothing else that needs less memory."""
    return Combination(one.precision, sharding=one.sharding)


def _settled_by(one: Combination, allowed: Allowed) -> set[Combination]:
    """Shards are gathered, which copies on each rank need not be."""
    slower = allowed.shardings if one.sharding == "none" else [one.sharding]
    return {Combination(one.precision, sharding=sharding) for sharding in (one.sharding, *slower)}


def _planned(search: TuningSearch, budget: int, combination: Combination,
             is_first: bool) -> Found:
    """What a combination is refused for concerns it alone, unless the model cannot be planned at
    all."""
    try:
        return search.planned(budget, combination)
    except InputError as error:
        if is_first:
            raise
        return Found(combination, None, None, f"refused: {first_sentence(error)}")


def _rank(found: Found, goal: str, step_seconds: float | None) -> tuple:
    seconds = found.known_seconds
    if seconds is None:
        return (2, found.peak is None, found.peak or 0)
    is_too_slow = step_seconds is not None and seconds > step_seconds
    changes = found.combination.changes
    if goal == "fits":
        return (is_too_slow, changes, seconds)
    size = found.size or 0
    return (is_too_slow, -size, _rounded(seconds), changes, seconds)


def _rounded(seconds: float) -> float:
    """The same for times that differ by less than _SAME_TIME, mostly."""
    return round(math.log(max(seconds, 1e-9)) / _SAME_TIME)


class _Proof:
    """Runs the first of a ranking: of the goal "fastest", the first few, as predictions of what is
    measured op by op are not exact."""

    def __init__(self, search: TuningSearch, budget: int, goal: str,
                 step_seconds: float | None, tell: Callable[[str], None]):
        self._search, self._budget, self._tell = search, budget, tell
        self._finalists = _finalists(goal)
        self._rank = functools.partial(_rank, goal=goal, step_seconds=step_seconds)

    def ranked(self, found: Sequence[Found]) -> list[Found]:
        """One that fails or does not keep the budget is ranked behind those that fit. Ctrl-C ends
        with those that were run."""
        waiting = sorted(found, key=self._rank)
        # With updates in the backward pass of one, all others are timed with theirs.
        updates = any(one.fits and one.combination.fused_update
                      for one in waiting[:self._finalists])
        done: list[Found] = []
        runs = 0
        try:
            while waiting and waiting[0].fits and runs < self._finalists:
                done.append(self._run(waiting[0], updates))
                runs += done[-1].measured is not None
                waiting = waiting[1:]
        except KeyboardInterrupt:
            self._tell("stopped: the others were not run")
        run = [one for one in done if one.measured is not None]
        failed = [one for one in done if one.measured is None]
        return [*sorted(run, key=self._rank), *sorted([*waiting, *failed], key=self._rank)]

    def _run(self, found: Found, updates: bool) -> Found:
        try:
            run = self._search.measured(self._budget, found, updates)
        except Error as error:
            return self._refuted(found, f"planned, but it fails: {first_sentence(error)}")
        if not run.is_within:
            return self._refuted(found, f"planned, but a step took {format_bytes(run.peak)}")
        self._tell(f"{found.combination.label}: {run.seconds:.3g} s, run within "
                   f"{format_bytes(run.peak)}")
        return dataclasses.replace(found, measured=run)

    def _refuted(self, found: Found, why: str) -> Found:
        self._tell(f"{found.combination.label}: {why}")
        return dataclasses.replace(found, seconds=None, reason=why)
