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
from ..optimizer.fused_updates import FusedUpdates
from ..plans.graph_plans import GraphPlans
from ..plans.slower import Slower
from ..stash import Stash, Stashes
from .comparison import Comparison
from .place_of_state import PlaceOfState
from .place_of_values import PlaceOfValues
from .region import Region
from .sizes_of_graph import SizesOfGraph
from .stash_choice import Attempt, cheapest_region
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

    def __post_init__(self):
        self._plans: dict[Region, GraphPlans] = {}
        self._slower: dict[str, Slower] = {}
        self._comparison: Comparison | None = None

    def add(self, captured: Captured, trained: Sequence[torch.Tensor],
            stashes: Stashes[Captured], sizes: SizesOfGraph | None = None) -> Region:
        """As of ``Session.add``."""
        if self.updates is not None:
            self.updates.prepare(self.parameters())
        self.account.set_traced_parameters(trained, captured.device)
        leads = sizes is not None and sizes.largest is None
        with self.step_plans.searching_even_for_others(leads):
            region = self._new_region(captured, stashes, sizes)
            self._admit(region)
            if sizes is not None and leads:
                sizes.lead(region, self.account, self.settings)
        return region

    def _new_region(self, captured: Captured, stashes: Stashes[Captured],
                    sizes: SizesOfGraph | None) -> Region:
        """By what it holds in fewer bits, the one whose plan takes the least time. In a comparison,
        raises TooSlow where no plan can be of use."""
        comparison, settings = self._comparison, self.settings
        if comparison is not None:
            settings = dataclasses.replace(settings, time_limit=comparison.seconds)
        slower = self.slower_for(captured.device)

        def make(captured: Captured, settings: Settings, stashes: Sequence[Stash] = (),
                 plain: Region | None = None) -> Region:
            region = Region(captured, settings, self._plans.values(), self.account.afterwards,
                            slower, self.updates, self.account.update_bytes, stashes, plain,
                            sizes)
            if comparison is not None and plain is None:
                comparison.require_use_of(region)
            return region

        if sizes is not None and sizes.largest is not None:
            chosen = [stash for stash in stashes.found if stash.name in sizes.stashes]
            return make(stashes.captured_with(chosen) if chosen else captured, settings, chosen)
        return cheapest_region(captured, stashes, settings, make, self._attempt,
                               soon=self.step_plans.is_waited_for)

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
            region.reserve(plan)
            self.state.settle(device, self.slower_for(device))
            self.state.bring_back()
        except BaseException:
            self._take_out(region, might_move)
            raise
        self._plans[region] = region.plans

    def _attempt(self, region: Region) -> Attempt:
        """What planning the region would come to, were it there."""
        might_move = self.values.may_move
        self._take_in(region)
        try:
            self.choose_what_moves(region)
            share = self.account.share(region)
            plan = self.step_plans.within_share(region, silent=True)
            slower = self.slower_for(region.captured.device)
            return Attempt(region, share, plan,
                           region.cost(plan) + self.state.chosen_cost(region, slower))
        except InfeasibleError:
            return Attempt(region)
        finally:
            self._take_out(region, might_move)

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

    def withdraw(self, regions: Iterable[Region]) -> None:
        """Has the session as though these had not been added. None has run."""
        for region in regions:
            del self._plans[region]
            self._leave(region)
            region.executors.forget_all_but_pending()
        self.account.invalidate()

    def readmit(self, regions: Iterable[Region]) -> None:
        """Those that were withdrawn, by the plans that they had."""
        for region in regions:
            self._admit(region)

    def choose_what_moves(self, region: Region) -> None:
        """Values, the state of the optimizer, both or nothing, by the step that this region is of.
        Where nothing fits, that is left to who asks for a plan."""
        self.state.choose(region, self.regions, self.slower_for(region.captured.device),
                          lambda: self.step_plans.leaving_all(region))
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

    def _take_in(self, region: Region) -> None:
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
