"""One captured graph of a model: its plans, and what they take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ... import Plan, _runtime
from ..budget.account import Afterwards
from ..budget.may_move import MayMove
from ..budget.settings import Settings
from ..capture import Captured
from ..common.notices import Notices
from ..optimizer.fused_updates import FusedUpdates
from ..plans.cost_units import as_cost
from ..plans.graph_plans import GraphPlans
from ..plans.needed_bytes import needed_bytes
from ..plans.planning import (
    PricedGraph,
    keep_all_bytes,
    keep_all_step_bytes,
    measure,
    plan_keeping_all,
    price,
)
from ..plans.sectioned_plans import SectionedGraphPlans
from ..plans.slower import Slower
from ..shards.overlap import overlapped
from ..shards.step_time import overlapped_cost
from ..stash import Stash
from .dropped_results import DroppedResults
from .executors import Executors
from .moves_of_passes import MovesOfPasses
from .passes_of_graph import PassesOfGraph
from .recordable import require_recordable
from .sizes_of_graph import SizesOfGraph

_NOTHING = Afterwards()


class Region:
    """The plans of a captured graph, by all that they depend on, and its ``passes``, which run them
    in ``executors``.

    ``afterwards``: what follows its passes. ``slower``: where values may move, from
    ``let_move`` on. ``updates``: what updates parameters in a backward pass, taking
    ``update_bytes`` for a while. ``stashes``: what the graph holds in fewer bits; ``plain``: the
    region of the same step that holds it as it is. ``sizes``: those that the graph is one of.
    ``notices``: of the whole model.
    """

    def __init__(self, captured: Captured, settings: Settings, relatives: Iterable[GraphPlans] = (),
                 afterwards: Afterwards = _NOTHING, slower: Slower | None = None,
                 updates: FusedUpdates | None = None, update_bytes: int = 0,
                 stashes: Sequence[Stash] = (), plain: Region | None = None,
                 sizes: SizesOfGraph | None = None, notices: Notices | None = None):
        self.captured, self.stashes, self.plain = captured, tuple(stashes), plain
        self._slower, self._may_move = slower, MayMove.NOTHING
        self._update_bytes = update_bytes
        self._settings, self._relatives, self._afterwards = settings, relatives, afterwards
        self._notices = notices or Notices()
        if settings.cuda_graph:
            require_recordable(captured)
        self._sizes = sizes
        measured = (measure(captured.graph, captured.device, settings) if sizes is None
                    else sizes.with_costs(captured.graph, self.stash_names))
        if settings.cuda_graph:
            measured = measured.with_random_ops_kept()
        self._leads = sizes is None or sizes.largest is None
        #: Which results the caller drops: learnt for all sizes of a range together.
        self.results: DroppedResults = sizes.largest.results if not self._leads else DroppedResults(
            captured, measured, keep_all_bytes(measured), any_dropped=not settings.cuda_graph)
        self._measured = measured
        self._known: dict[tuple[frozenset[int], MayMove, Afterwards],
                          tuple[PricedGraph, SectionedGraphPlans]] = {}
        #: What is taken when all values are kept, with results as expected before the first step,
        #: or as they are when the caller drops all: a budget that is a share of it does not change
        #: when they turn out to be held.
        self._kept_bytes: int = plain._kept_bytes if plain else update_bytes + max(
            self._keeping_all_bytes(dropped)
            for dropped in {self.results.now, frozenset(self.results.droppable)})
        self._whole_bytes: int = plain._whole_bytes if plain else self._kept_bytes
        self.executors = Executors(captured.device, settings.cuda_graph, slower)
        self.passes = PassesOfGraph(captured, settings, self.executors,
                                    MovesOfPasses(self.executors, captured.device, slower), updates)
        self._gradient_error: object | None = None
        self._kept: tuple[PricedGraph, float] | None = None
        #: Whether pending passes keep their blocks, as no other region can run them again.
        self.ends_what_it_began = False

    def _keeping_all_bytes(self, dropped: frozenset[int]) -> int:
        """What is taken when all values are kept and the caller drops these results."""
        with self.results.supposing(dropped):
            known = self.priced
            return (keep_all_step_bytes(known, self._after_bytes(known)) + known.uncounted_bytes
                    + self._recording_bytes)

    def count_shares_of(self, whole_bytes: int) -> None:
        """A budget that is a share is one of so many bytes, whatever this graph takes."""
        self._whole_bytes = whole_bytes

    @property
    def name(self) -> str:
        return self.captured.graph.name

    @property
    def leader(self) -> Region:
        """By whose plan this one runs: on several ranks, of the sizes of a range, the region of the
        largest."""
        return self if self._leads or self._settings.group is None else self._sizes.largest

    @property
    def decides(self) -> bool:
        """Whether what all ranks decide together may follow from this region: sizes that follow
        another are not there on all of them."""
        return self.leader is self

    @property
    def is_of_a_range(self) -> bool:
        return self._sizes is not None

    @property
    def gradient_error(self) -> object | None:
        """Of gradients, where stashes change them, when it is measured: of the sizes of a range, at
        the largest, whose stashes all have."""
        return self._gradient_error if self._leads else self._sizes.largest.gradient_error

    def note_gradient_error(self, error: object) -> None:
        self._gradient_error = error

    @property
    def stash_names(self) -> tuple[str, ...]:
        return tuple(stash.name for stash in self.stashes)

    @property
    def priced(self) -> PricedGraph:
        """The graph as plans are made for it now, by which results the caller drops."""
        return self._now()[0]

    @property
    def plans(self) -> SectionedGraphPlans:
        return self._now()[1]

    def search_by(self, settings: Settings) -> None:
        """Plans that are not there yet are searched for by these settings from now on."""
        self._settings = settings
        for _, plans in self._known.values():
            plans.search_by(settings)

    def search_longer(self, settings: Settings) -> None:
        """As of ``GraphPlans``, of the plans that are in use now."""
        self.plans.search_longer(settings)
        self.search_by(settings)

    def leave_afterwards(self, afterwards: Afterwards) -> None:
        """Plans are made by this from now on; those without room for what was seen may return."""
        self._afterwards = afterwards
        self._known = {state: known for state, known in self._known.items()
                       if state[2] == afterwards or not state[2].seen_bytes}

    def let_move(self, may_move: MayMove) -> None:
        """The plans that it has from now on may move so much."""
        self._may_move = may_move
        if may_move is MayMove.NOTHING:
            self.executors.forget_moving()

    @property
    def searches(self) -> int:
        """How many go on in the background, whatever its plans may move."""
        return sum(plans.searches for _, plans in self._known.values())

    def _now(self) -> tuple[PricedGraph, SectionedGraphPlans]:
        dropped = self.results.now
        state = dropped, self._may_move, self._afterwards
        if state not in self._known:
            known = price(self._measured.with_results_dropped(sorted(dropped)),
                          self.captured.device, bool(dropped),
                          self._slower if self._may_move else None,
                          self._may_move is MayMove.PARAMETERS)
            room = self._after_bytes(known), self._seen_bytes(known)
            plans = (SectionedGraphPlans(known, self._settings, self._relatives, *room,
                                         notices=self._notices)
                     if self._leads
                     else self._sizes.plans(known, self._settings, dropped, *room, self._notices))
            self._known[state] = known, plans
        return self._known[state]

    def observe_results(self, held: Iterable[int]) -> bool:
        """Takes in which results the caller held at the last backward pass; whether plans are to be
        made for other results from now on."""
        return self.results.observe(held)

    def _after_bytes(self, known: PricedGraph) -> int:
        """Of the block, what plans are to leave to what follows. A block that recordings use stays
        whole, and the room is beside it."""
        return 0 if self._settings.cuda_graph else self._room_afterwards(known)

    def _seen_bytes(self, known: PricedGraph) -> int:
        """The same of what was seen to follow."""
        return 0 if self._settings.cuda_graph else max(
            0, self._afterwards.seen_bytes - known.uncounted_bytes)

    def _room_afterwards(self, known: PricedGraph) -> int:
        """Results in the caller's memory and states of the generator are gone by then."""
        return max(0, self._afterwards.bytes_beside_gradients(known.input_bytes)
                   - known.uncounted_bytes)

    @property
    def _recording_bytes(self) -> int:
        """What a step takes more where its halves are recorded."""
        if not self._settings.cuda_graph:
            return 0
        return _runtime.placed_bytes(self.priced.graph) + self._room_afterwards(self.priced)

    @property
    def copied_gradient_bytes(self) -> int:
        """What gradients take beside the block where they were made."""
        return self.passes.copied_gradient_bytes

    @property
    def uncounted_bytes(self) -> int:
        """What a step takes that no plan counts."""
        return self.beside_block_bytes + self._recording_bytes

    @property
    def beside_block_bytes(self) -> int:
        """Of that, what does not lie in a block."""
        return self.priced.uncounted_bytes + self.copied_gradient_bytes + self._update_bytes

    @property
    def whole_bytes(self) -> int:
        """What a step takes when all values are kept, residents included: a budget that is a share
        is one of that."""
        return self._whole_bytes + self.copied_gradient_bytes

    def block_bytes(self, plan: Plan) -> int:
        """What a pass by the plan takes beside the residents."""
        return self.needed_bytes(plan) - self.priced.resident_bytes + self.uncounted_bytes

    def needed_bytes(self, plan: Plan) -> int:
        """What a step by the plan takes, residents included."""
        return needed_bytes(self.priced.graph, plan)

    @property
    def least_bytes(self) -> int:
        """What a step takes by the plan that needs the fewest bytes."""
        return self.plans.least_bytes

    def step_cost(self, plan: Plan) -> float:
        """How long both passes take by the plan. Collectives count as far as no op hides them, and
        what ranks do for each other outside the graph."""
        layout = self._settings.layout
        if layout is None:
            return plan.cost
        placed = self.passes.parameter_count if layout.shards else 0
        return (overlapped_cost(self.priced.graph, plan, layout.costs)
                + layout.costs.outside(placed, moves=plan.slower_bytes > 0))

    def keep_all_cost(self) -> float:
        """The same where every value is kept, as though it fitted."""
        known, layout = self.priced, self._settings.layout
        if layout is None:
            return known.keep_all_cost
        if self._kept is None or self._kept[0] is not known:
            plan = overlapped(known.graph, plan_keeping_all(known.graph), layout.costs)
            self._kept = known, self.step_cost(plan)
        return self._kept[1]

    def cost(self, plan: Plan) -> float:
        """Of the plan, with the time that parameters take to leave before it and to come back
        after it."""
        return plan.cost + self._apart_cost(plan)

    def chosen_cost(self, plan: Plan) -> float:
        """The same, by which it is chosen what moves: with all that runs beside ops."""
        return self.step_cost(plan) + self._apart_cost(plan)

    def _apart_cost(self, plan: Plan) -> float:
        if not plan.residents_away or self._slower is None:
            return 0.0
        graph = self.priced.graph
        return as_cost(self._slower.seconds_apart(graph, plan), graph)

    @property
    def pending_passes(self) -> int:
        """How many forward passes wait for their backward pass."""
        return sum(executor.pending_pass != 0 for executor in self.executors)

    @property
    def holds_gradients(self) -> bool:
        """Whether gradients live in a block that no pending pass needs any more."""
        return any(not executor.idle and not executor.pending_pass for executor in self.executors)
