"""How captured graphs come into a session, and leave it again where others are faster."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from ... import InfeasibleError
from ..budget.account import BudgetAccount
from ..budget.device_memory import require_device_memory
from ..budget.may_move import MayMove
from ..budget.settings import Settings
from ..capture import Captured
from ..common.notices import Notices
from ..optimizer.fused_updates import FusedUpdates
from ..plans.graph_plans import GraphPlans
from ..plans.slower import Slower
from ..stash import Stash, Stashes
from .attempt import Attempt, Chosen, Outcome
from .choices import Undo
from .comparison import Comparison
from .place_of_state import PlaceOfState
from .place_of_values import PlaceOfValues
from .planned_graph import PlannedGraph
from .region import Region
from .sizes_of_graph import SizesOfGraph
from .stash_choice import cheapest_region
from .step_plans import StepPlans
from .steps import Steps


@dataclasses.dataclass
class Graphs:
    """The graphs of a session: ``regions``, a list that others read. Each is planned together with
    those that are there.

    ``parameters``: gives those of the whole model; ``updates``: what updates them in a backward
    pass.
    """

    settings: Settings
    account: BudgetAccount[Region]
    regions: list[Region]
    steps: Steps
    state: PlaceOfState
    values: PlaceOfValues
    step_plans: StepPlans
    updates: FusedUpdates | None
    parameters: Callable[[], Iterable[torch.Tensor]]
    notices: Notices

    def __post_init__(self):
        self._plans: dict[Region, GraphPlans] = {}
        self._slower: dict[str, Slower] = {}
        self._comparison: Comparison | None = None
        #: Those that run now, in the order in which they were added.
        self.planned: list[PlannedGraph] = []
        self.ran_last: PlannedGraph | None = None

    def add(self, captured: Captured, trained: Sequence[torch.Tensor],
            stashes: Stashes[Captured], sizes: SizesOfGraph | None = None) -> PlannedGraph:
        """As of ``Session.add``."""
        if self.updates is not None:
            self.updates.prepare(self.parameters())
        self.account.set_traced_parameters(trained, captured.device)
        graph = PlannedGraph(captured, stashes, sizes)
        if sizes is not None and sizes.largest is not None:
            graph.region = self._as_largest(graph, sizes)
            self._admit(graph.region)
        else:
            with self.step_plans.searching_even_for_others(sizes is not None):
                self._admit_cheapest(graph)
                if sizes is not None:
                    sizes.lead(graph.region, self.account, self.settings)
        self.planned.append(graph)
        return graph

    @property
    def latest(self) -> Region:
        """By which the graph runs that ran last, or the first one where that was none of these."""
        return (self.ran_last if self.ran_last in self.planned else self.planned[0]).region

    @property
    def largest_of_ranges(self) -> list[Region]:
        """Of each graph that runs at the sizes of a range, the region of the largest."""
        return [graph.region for graph in self.planned
                if graph.sizes is not None and graph.sizes.largest is graph.region]

    def _as_largest(self, graph: PlannedGraph, sizes: SizesOfGraph) -> Region:
        """With the stashes that the graph has at its largest size."""
        chosen = graph.stashes.named(sizes.stashes)
        return graph.with_stashes(chosen, lambda captured: self._region(
            captured, self.settings, chosen, None, sizes))

    def _admit_cheapest(self, graph: PlannedGraph) -> None:
        chosen = self._choose(graph, self.settings, soon=self.step_plans.takes_what_is_there)
        graph.region = chosen.region
        self._admit(chosen.region)
        if self._comparison is not None:
            self._comparison.note(chosen)

    def _choose(self, graph: PlannedGraph, settings: Settings, soon: bool,
                instead_of: Region | None = None) -> Chosen:
        """By what it holds in fewer bits, the region whose plan takes the least time. In a
        comparison, raises TooSlow where no plan can be of use. ``instead_of``: the one by which the
        graph runs now."""
        comparison = self._comparison
        if comparison is not None:
            settings = dataclasses.replace(settings, time_limit=comparison.seconds)

        def make(settings: Settings, stashes: Sequence[Stash] = (),
                 plain: Region | None = None) -> Region:
            region = graph.with_stashes(stashes, lambda captured: self._region(
                captured, settings, stashes, plain, graph.sizes))
            region.search_by(settings)
            if comparison is not None and plain is None:
                comparison.require_use_of(region)
            return region

        return cheapest_region(
            graph.stashes, dataclasses.replace(settings, budget=self.account.budget), make,
            lambda region: self._attempt(region, instead_of),
            lambda region: self._smallest(region, instead_of), soon)

    def _region(self, captured: Captured, settings: Settings, stashes: Sequence[Stash],
                plain: Region | None, sizes: SizesOfGraph | None) -> Region:
        return Region(captured, settings, self._plans.values(), self.account.afterwards,
                      self.slower_for(captured.device), self.updates, self.account.update_bytes,
                      stashes, plain, sizes, self.notices)

    def choose_again(self, graph: PlannedGraph, undo: list[Undo]) -> None:
        """Which region the graph runs by, where the budget is another one now, in searches of a
        second; a better plan is looked for in the background. ``undo``: as of ``ChooseAgain``."""
        before = graph.region
        if before not in self.regions:
            return
        chosen = self._choose(graph, self.step_plans.limited(self.settings), soon=False,
                              instead_of=before)
        self._exchange(graph, chosen.region)
        undo.append(lambda: self._exchange(graph, before))
        chosen.region.search_longer(self.settings)

    def _exchange(self, graph: PlannedGraph, region: Region) -> None:
        """The graph runs by this region from now on. The other one stays as long as it has memory:
        a backward pass is to come for it, or gradients lie in its block."""
        before = graph.region
        if region is before:
            return
        self.steps.retired.discard(region)
        self.regions[:] = [other for other in self.regions if other is not region]
        self._put(region, before)
        region.passes.copies_gradients = before.passes.copies_gradients
        graph.region = region
        del self._plans[before]
        self._plans[region] = region.plans
        self.retire(before)

    def retire(self, region: Region) -> None:
        """It counts as long as it has memory, and begins nothing."""
        self._bring_up_to_date(region)
        self.regions.append(region)
        self.steps.retired.add(region)
        self.account.invalidate()

    def drop_retired(self) -> None:
        """Those that have no memory any more."""
        for region in list(self.steps.retired):
            region.executors.release_idle()
            if not any(executor.held_bytes for executor in region.executors):
                self.steps.retired.discard(region)
                self._leave(region)
                self.account.invalidate()

    def _admit(self, region: Region) -> None:
        """Plans it together with those that are there, as ``add``."""
        device = region.captured.device
        might_move = self.values.may_move
        self._take_in(region)
        try:
            self.choose_what_moves(region)
            plan = self.step_plans.of(region)
            needed_bytes = region.block_bytes(plan)
            require_device_memory(needed_bytes, device, self.account.budget)
            region.passes.reserve(region.priced.graph, plan)
            self.state.settle(device, self.slower_for(device))
            self.state.bring_back()
        except BaseException:
            self._take_out(region, might_move)
            raise
        self._plans[region] = region.plans

    def _attempt(self, region: Region, instead_of: Region | None = None) -> Attempt:
        """What planning the region would come to, were it there, ``instead_of`` another one."""
        with self._as_if_there(region, instead_of):
            share, unmoved = self._unmoved(region)
            return Attempt(region, share, unmoved,
                           unmoved if self.settings.offload is None else self._free(region))

    def _unmoved(self, region: Region) -> tuple[int | None, Outcome]:
        """The region's share where nothing moves, and its plan."""
        if self.account.moves_state:  # it was sent away before
            return None, Outcome()
        self.values.set(MayMove.NOTHING)
        share = None
        try:
            share = self.account.share(region)
            plan = self.step_plans.in_share(region, silent=True)
            return self.account.share(region), Outcome(plan, region.cost(plan),
                                                       region.chosen_cost(plan))
        except InfeasibleError:
            return share, Outcome()

    def _free(self, region: Region) -> Outcome:
        """The plan where all may move that the settings allow."""
        self.choose_what_moves(region)
        try:
            plan = self.step_plans.within_share(region, silent=True)
        except InfeasibleError:
            return Outcome()
        slower = self.slower_for(region.captured.device)
        of_state = self.state.chosen_cost(region, slower)
        return Outcome(plan, region.cost(plan) + of_state, region.chosen_cost(plan) + of_state)

    def _smallest(self, region: Region, instead_of: Region | None = None) -> int:
        """The smallest budget that would do, were the region there."""
        with self._as_if_there(region, instead_of):
            return self.step_plans.smallest_budget(region)

    @contextlib.contextmanager
    def _as_if_there(self, region: Region, instead_of: Region | None) -> Iterator[None]:
        might_move = self.values.may_move
        if instead_of is None:
            self._take_in(region)
        else:
            self._put(region, instead_of)
        try:
            yield
        finally:
            if instead_of is None:
                self._take_out(region, might_move)
            else:
                self.state.give_up(self.regions, self.slower_for(region.captured.device))
                self.values.set(might_move)
                self._put(instead_of, region)

    def _put(self, region: Region, instead_of: Region) -> None:
        if region is not instead_of:
            self._bring_up_to_date(region)
            self.regions[self.regions.index(instead_of)] = region
            self.steps.replace(instead_of, region)
        self.account.invalidate()

    def _bring_up_to_date(self, region: Region) -> None:
        region.leave_afterwards(self.account.afterwards)
        region.let_move(self.values.may_move)

    @contextlib.contextmanager
    def comparing(self, comparison: Comparison) -> Iterator[None]:
        """Graphs that are added while it lasts may be taken back by ``withdraw``. They are added
        only where a plan fits, whatever the settings say of others. ``add`` raises TooSlow where
        none costs as little as the comparison wants."""
        self._comparison, self.step_plans.are_compared = comparison, True
        try:
            yield
        finally:
            self._comparison, self.step_plans.are_compared = None, False

    def withdraw(self, graphs: Iterable[PlannedGraph]) -> None:
        """Has the session as though these had not been added, but for what they still hold."""
        for graph in graphs:
            region = graph.region
            self.planned.remove(graph)
            del self._plans[region]
            self._leave(region)
            if any(executor.held_bytes for executor in region.executors):
                region.ends_what_it_began = True
                self.retire(region)
            else:
                region.executors.forget_all_but_pending()
        self.account.invalidate()

    def readmit(self, graphs: Iterable[PlannedGraph]) -> None:
        """Those that were withdrawn, by the plans that they had."""
        for graph in graphs:
            if graph.region in self.steps.retired:
                self.steps.retired.discard(graph.region)
                graph.region.ends_what_it_began = False
                self._leave(graph.region)
            self._admit(graph.region)
            self.planned.append(graph)

    def choose_what_moves(self, region: Region) -> None:
        """Values, the state of the optimizer, both or nothing, by the step that this region is of.
        Where nothing fits, that is left to who asks for a plan."""
        self.state.choose(region, self.regions, self.slower_for(region.captured.device),
                          lambda: self.step_plans.leaving_all(region),
                          lambda: self.step_plans.leaving_some(region))
        self.step_plans.choose_what_moves(region)

    def slower_for(self, device: str) -> Slower | None:
        """Where values of the device may move. Raises InputError where they cannot."""
        if self.settings.offload is None:
            return None
        if device not in self._slower:
            self._slower[device] = Slower(self.settings, device)
            self.account.buffer_bytes = sum(slower.buffer_bytes
                                            for slower in self._slower.values())
        return self._slower[device]

    @property
    def slower_memories(self) -> list[Slower]:
        """Of all devices that graphs are on."""
        return list(self._slower.values())

    def _take_in(self, region: Region) -> None:
        self._bring_up_to_date(region)
        self.regions.append(region)
        self.step_plans.has_others = len(self.regions) > 1
        self.steps.observe(region)
        self.account.invalidate()

    def _take_out(self, region: Region, might_move: MayMove) -> None:
        """``might_move``: what plans could move before it was taken in."""
        self._leave(region)
        self.state.give_up(self.regions, self.slower_for(region.captured.device))
        self.values.set(might_move)
        self.account.invalidate()

    def _leave(self, region: Region) -> None:
        self.regions.remove(region)
        self.step_plans.has_others = len(self.regions) > 1
        self.steps.forget(region)
