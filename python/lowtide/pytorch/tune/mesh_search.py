"""What is known of a combination on all ranks of a mesh."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ... import InfeasibleError
from ..budget.budget import Budget
from ..budget.settings import Settings
from ..common.fused_update import FusedUpdate
from ..common.inputs import device_of
from ..on_ranks import planned_as_it_is
from ..optimizer.fused_updates import require_by_element
from ..optimizer.stand_in import stand_in
from ..shards.costs import CollectiveCosts
from ..shards.group import Group
from ..shards.layout import GraphLayout
from ..shards.measured_costs import costs_of
from ..shards.sharding import counted_parameters, graph_layout
from ..wrap import planned_module
from .combination import Combination
from .rows_of_batch import number_of_rows
from .trial import (
    Found,
    Measured,
    found_of,
    measured_for_good,
    micro_batch,
    not_fitting,
    require_plans,
    room_in_micro_batch,
)

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

_NANOSECONDS = 1e9


@dataclasses.dataclass(frozen=True)
class TuningRanks:
    """``group``: of the ranks of ``mesh``. ``costs``: of their collectives."""

    mesh: DeviceMesh
    group: Group
    costs: CollectiveCosts

    @classmethod
    def of(cls, mesh: DeviceMesh) -> TuningRanks:
        """Called on all ranks."""
        group = Group(mesh)
        return cls(mesh, group, costs_of(group, mesh.device_type))

    def least_of_all(self, budget: int) -> int:
        """A number of bytes that is no more than what any rank has."""
        (found,) = zip(*self.group.meet("tune within a budget", "", budget))
        return min(found)


class MeshSearch:
    """Of a module and this rank's inputs. Nothing is placed on the ranks: plans are made for the
    module as it is, and a copy of it runs. All ranks have the same answers."""

    is_on_ranks = True

    def __init__(self, model: torch.nn.Module, inputs: object, settings: Mapping[str, Any],
                 ranks: TuningRanks):
        self._model, self._inputs, self._settings = model, inputs, settings
        self._ranks, self._group = ranks, ranks.group
        self.rows = number_of_rows(inputs)

    @property
    def device(self) -> torch.device:
        return device_of(self._model, self._inputs)

    def agreed(self, budget: int) -> int:
        return self._ranks.least_of_all(budget)

    def planned(self, budget: int, combination: Combination) -> Found:
        here = self._planned_here(budget, combination)
        (peaks,) = zip(*self._group.meet(
            "plan a combination", combination.label,
            here.peak if here.fits and here.peak is not None else -1))
        first = self._group.of_first(lambda: here, "rank a combination", combination.label)
        if min(peaks) >= 0:
            return dataclasses.replace(first, peak=max(peaks))
        if first.fits:
            return Found(combination, None, None, f"does not fit on rank {peaks.index(-1)}")
        return first

    def _planned_here(self, budget: int, combination: Combination) -> Found:
        layout = self._layout(combination)
        counted = counted_parameters(self._model, layout).values()
        try:
            room = room_in_micro_batch(budget, counted, combination)
            with planned_as_it_is(
                    self._model, micro_batch(self._inputs, combination),
                    self._as_settings(room, combination), self._group, layout,
                    functools.partial(planned_module, None)) as session:
                require_plans(session)
                return found_of(session, combination)
        except InfeasibleError as error:
            return not_fitting(combination, error)

    def measured(self, budget: int, found: Found, updates: bool, steps: int = 3) -> Measured:
        """Of the rank that takes the most, of the slowest one."""
        with self._copied() as (model, settings):
            run = measured_for_good(model, self._inputs, budget, found.combination,
                                    {**settings, "mesh": self._ranks.mesh},
                                    updates or found.combination.fused_update, steps)
        label = found.combination.label
        peak, nanoseconds = self._group.largest("compare runs", label, run.peak,
                                                int(run.seconds * _NANOSECONDS))
        return Measured(nanoseconds / _NANOSECONDS, peak, budget)

    @contextlib.contextmanager
    def _copied(self) -> Iterator[tuple[torch.nn.Module, Mapping[str, Any]]]:
        """A copy of the model, whose parameters may move, and the settings with an optimizer of
        it."""
        known: dict[int, Any] = {}
        model = copy.deepcopy(self._model, known)
        optimizer = self._settings.get("optimizer")
        if isinstance(optimizer, torch.optim.Optimizer):
            optimizer = stand_in(optimizer, [
                [known.get(id(parameter), parameter) for parameter in group["params"]]
                for group in optimizer.param_groups], {})
        yield model, {**self._settings, "optimizer": optimizer}

    def _layout(self, combination: Combination) -> GraphLayout:
        assert combination.sharding is not None, "combinations of a mesh name a sharding"
        named = self._model.named_parameters(remove_duplicate=False)
        return graph_layout(named, self._group, combination.sharding, self._ranks.costs)

    def _as_settings(self, budget: int, combination: Combination) -> Settings:
        names = ("precision", "slices", "stash")
        settings = Settings(Budget.parse(budget), **self._settings,
                            fused_update=FusedUpdate.parse(combination.fused_update),
                            **{name: getattr(combination, name) for name in names})
        settings.require_ranks_may_train()
        if settings.fused_update is not None:
            require_by_element(settings.optimizer)
        return settings
