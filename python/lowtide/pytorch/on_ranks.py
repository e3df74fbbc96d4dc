"""``wrap`` on all ranks of a mesh, and the choice of which parameters lie in shards."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from .. import InfeasibleError, InputError
from .autograd.session import Session
from .autograd.traced import Again
from .budget.budget import Budget
from .budget.settings import Settings
from .optimizer.fused_updates import require_by_element
from .optimizer.stand_in import stand_in
from .optimizer.step_here import step_here
from .shards.data_parallel import mesh_of_ranks
from .shards.fully_sharded import is_fully_sharded, layout_of, mesh_of, without_hooks
from .shards.group import Group
from .shards.layout import GraphLayout
from .shards.measured_costs import costs_of
from .shards.model_on_ranks import ModelOnRanks
from .shards.optimizers import require_placeable
from .shards.sharding import candidates, counted_parameters, graph_layout, require_sharding

#: Of the time limit, for the plan of each layout that is compared, at most; and for all of them.
#: The one that is chosen is planned again with all of it.
_PART_FOR_A_TRIAL, _PART_FOR_ALL = 0.25, 1.0

_PLACED_BEFORE = ("the model was prepared by fully_shard, which has placed its parameters: leave "
                  "mesh and sharding out, or wrap the model before fully_shard")

#: ``wrapped(model, example_inputs, settings, on_ranks)``: the planned module and its session.
Wrapped = Callable[[torch.nn.Module, object, Settings, ModelOnRanks],
                   tuple[torch.nn.Module, Any]]


def group_for(model: torch.nn.Module, mesh: DeviceMesh | None,
              sharding: str | None) -> Group | None:
    """The ranks that ``wrap`` plans for together, by its arguments; None: each plans for itself.
    Raises InputError for a mesh that is none of the model's ranks."""
    if isinstance(model, DistributedDataParallel):
        if mesh is not None or sharding is not None:
            mesh = mesh_of_ranks(model, mesh)
        model = model.module
    if is_fully_sharded(model):
        own = mesh_of(model)
        if mesh is not None and mesh != own:
            raise InputError(_PLACED_BEFORE)
        mesh = own
    if mesh is None:
        return None
    if not isinstance(mesh, DeviceMesh):
        raise InputError(f"mesh must be a torch.distributed.DeviceMesh, as init_device_mesh"
                         f"(\"cpu\", (2,)) makes it, not {mesh!r}")
    return Group(mesh)


def sharding_of_ranges(model: torch.nn.Module, sharding: str | None) -> str:
    """With dynamic_shapes, where ``sharding`` is what was given. Raises InputError for parameters
    in shards: PyTorch traces ops of DTensors for one size alone."""
    if is_fully_sharded(model) or require_sharding(sharding) not in (None, "none"):
        raise InputError("dynamic_shapes is not for parameters or gradients in shards yet, as "
                         "PyTorch traces these for one size: give a mesh with sharding=\"none\", "
                         "or leave dynamic_shapes out")
    return "none"


def wrapped_on_ranks(model: torch.nn.Module, example_inputs: object, settings: Settings,
                     group: Group, sharding: str | None, wrapped: Wrapped) -> torch.nn.Module:
    """As of ``wrap``, on the ranks of ``group_for``. Where no plan fits, the model is as it was."""
    _require_possible(model, example_inputs, settings, sharding)
    # Before collectives, in which the others would wait for a rank that was refused.
    group.meet("wrap the model", f"{sharding} {settings.alike_on_ranks}")
    if is_fully_sharded(model):
        return _wrapped_fully_sharded(group, model, example_inputs, settings, sharding, wrapped)
    return _wrapped_on(group, model, example_inputs, settings, sharding, wrapped)


def _require_possible(model: torch.nn.Module, example_inputs: object, settings: Settings,
                      sharding: str | None) -> None:
    """Raises InputError for what is not done on several ranks."""
    require_sharding(sharding)
    settings.require_ranks_may_train()
    if settings.fused_update is not None:
        require_by_element(settings.optimizer)
    if is_fully_sharded(model):
        if sharding == "none":
            raise InputError(_PLACED_BEFORE)
        return
    if sharding is None and example_inputs is None:
        raise InputError("with a mesh, the sharding is chosen by plans for example inputs: give "
                         "example_inputs, or sharding=\"none\", \"gradients\" or \"full\"")
    require_placeable(settings.optimizer)


def _wrapped_on(group: Group, model: torch.nn.Module, example_inputs: object, settings: Settings,
                sharding: str | None, wrapped: Wrapped) -> torch.nn.Module:
    costs = costs_of(group, group.mesh.device_type)
    named = list(model.named_parameters(remove_duplicate=False))
    if example_inputs is None:
        assert sharding is not None, "is chosen by plans for example inputs"
        layouts = [graph_layout(named, group, sharding, costs)]
    else:
        # A layout stays, and where there is no budget, a later one may be of any size.
        coalesce = settings.coalesce and not settings.budget.is_unlimited
        layouts = candidates(named, group, sharding, costs, coalesce)
    part = min(_PART_FOR_A_TRIAL, _PART_FOR_ALL / len(layouts))
    choice = _LayoutChoice(model, example_inputs, settings, group, wrapped, part)
    chosen = layouts[0] if example_inputs is None else choice.fastest(layouts)
    on_ranks = ModelOnRanks.of(model, group, chosen, settings.optimizer)
    _choose_updates(on_ranks, settings)
    settings = dataclasses.replace(choice.settings, layout=chosen)
    try:
        planned, _ = wrapped(model, example_inputs, settings, on_ranks)
    except InfeasibleError:  # the search of the trial, which found a plan, took other ways
        planned, _ = wrapped(model, example_inputs, choice.briefly(settings), on_ranks)
    return planned


def _choose_updates(on_ranks: ModelOnRanks, settings: Settings) -> None:
    """Within the backward pass, or by the optimizer's own step on what is here."""
    on_ranks.updates = settings.fused_update is not None
    if not on_ranks.updates and on_ranks.placed is not None:
        step_here(settings.optimizer)


def _wrapped_fully_sharded(group: Group, model: torch.nn.Module, example_inputs: object,
                           settings: Settings, sharding: str | None,
                           wrapped: Wrapped) -> torch.nn.Module:
    """Its parameters lie in shards already, and its optimizer has them."""
    with without_hooks(model) as reduced_in:
        costs = costs_of(group, group.mesh.device_type)
        named = list(model.named_parameters(remove_duplicate=False))
        layout = layout_of(model, graph_layout(named, group, sharding or "full", costs),
                           reduced_in)
        on_ranks = ModelOnRanks.placed_before(model, group, layout)
        _choose_updates(on_ranks, settings)
        planned, _ = wrapped(model, example_inputs, dataclasses.replace(settings, layout=layout),
                             on_ranks)
    return planned


@dataclasses.dataclass
class _LayoutChoice:
    """Compares layouts by plans of the model as it is, before any parameter moves. A budget that is
    a share is one of what the step takes with the first layout: ``settings`` has it in bytes then,
    unless more graphs are to come, which count too. ``part``: of the time limit, for each of them.
    """

    model: torch.nn.Module
    example_inputs: object
    settings: Settings
    group: Group
    wrapped: Wrapped
    part: float
    #: What captures the graphs of the step; None before they were traced.
    again: Sequence[Again] | None = None

    def fastest(self, layouts: Sequence[GraphLayout]) -> GraphLayout:
        """Of those that fit, the one whose plan is predicted to take the least time, and the first
        of several. Raises InfeasibleError where none fits, as for the one that needs the least."""
        best, seconds = None, float("inf")
        needed: list[tuple[float, GraphLayout]] = []
        for layout in layouts:
            try:
                predicted = self._predicted(layout, self.briefly(self.settings))
            except InfeasibleError as error:
                needed.append((_smallest_budget(error), layout))
                self._trace(layout)
                continue
            if best is None or predicted < seconds:
                best, seconds = layout, predicted
        if best is None:
            # Not for a brief search alone: the smallest budget that it found may be refused to one
            # that had less of the processor.
            _, best = min(needed, key=operator.itemgetter(0))
            self._predicted(best, self.settings)
        return best

    def briefly(self, settings: Settings) -> Settings:
        """As the plans that are compared are searched for."""
        return dataclasses.replace(settings,
                                   time_limit=self.part * self.settings.time_limit)

    def _trace(self, layout: GraphLayout) -> None:
        """Where no layout before had a plan, from which the graphs are known."""
        if self.again is None:
            with planned_as_it_is(self.model, self.example_inputs, self.settings.without_budget(),
                                  self.group, layout, self.wrapped) as session:
                self.again = _captured_alike(session)

    def _predicted(self, layout: GraphLayout, settings: Settings) -> float:
        """Seconds of a step. Raises InfeasibleError."""
        with planned_as_it_is(self.model, self.example_inputs, settings, self.group, layout,
                              self.wrapped, self.again or ()) as session:
            if not session.has_plans:
                return float("inf")
            if self.again is None:
                self.again = _captured_alike(session)
            if self.settings.budget.share is not None and not session.is_in_pieces:
                budget = Budget.parse(session.budget_bytes)
                self.settings = dataclasses.replace(self.settings, budget=budget)
            return session.figures.predicted_seconds()


@contextlib.contextmanager
def planned_as_it_is(model: torch.nn.Module, example_inputs: object, settings: Settings,
                     group: Group, layout: GraphLayout, wrapped: Wrapped,
                     again: Sequence[Again] = ()) -> Iterator[Any]:
    """The session of a step by this layout, while it lasts, although no parameter moves. Raises
    InfeasibleError where no plan fits. ``again``: as of ``_captured_alike``, by another layout;
    otherwise the model is traced."""
    settings.say(f"planning with {len(layout.shards)} parameters in shards, and up to "
                 f"{layout.bucket_bytes} bytes in one collective, in one message of tensors up to "
                 f"{layout.coalesced_bytes} bytes")
    counted = counted_parameters(model, layout)
    settings = dataclasses.replace(settings, layout=layout, when_infeasible="error",
                                   optimizer=_with_parameters(settings.optimizer, counted))
    if again:
        session = _planned_again(again, settings, lambda: counted.values(), type(model).__name__)
    else:
        _, session = wrapped(model, example_inputs, settings,
                             ModelOnRanks(group, None, lambda: counted.values(),
                                          is_only_planned=True))
    try:
        yield session
    finally:
        session.forget()


def _captured_alike(session: Any) -> list[Again]:
    """By graph of the step, what captures it by another layout. None where a graph breaks, or where
    slices are chosen: then what is captured depends on the plan."""
    whole = len(session.again) == session.runs == 1 and isinstance(session.settings.slices, int)
    return [again for again in session.again if again is not None] if whole else []


def _planned_again(again: Sequence[Again], settings: Settings,
                   parameters: Callable[[], Iterable[torch.Tensor]], name: str) -> Session:
    """As the session that they were captured in, by other settings."""
    session = Session(settings, parameters, name)
    session.preparing = True
    for capture in again:
        traced = capture(settings)
        session.begin_capture(traced.captured.device)
        session.add(traced)
    return session


def _smallest_budget(failure: InfeasibleError) -> float:
    """That it names, where it does."""
    return getattr(failure, "smallest_budget", None) or math.inf


def _with_parameters(optimizer, counted: Mapping[torch.Tensor, torch.Tensor]):
    """An optimizer that trains others instead, to count what it takes; a name as it is."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        return optimizer
    return stand_in(optimizer, [[counted.get(parameter, parameter)
                                 for parameter in group["params"]]
                                for group in optimizer.param_groups], {})
