"""All captured graphs of one model, their budget, and the training steps that run them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch

from ... import InfeasibleError, Plan
from ..budget.account import BudgetAccount
from ..budget.budget import Budget
from ..budget.memory import Memory
from ..budget.settings import Settings
from ..common.lasting_workspaces import take_lasting_workspaces
from ..common.notices import Notices, warn
from ..common.prepared import Prepared
from ..optimizer.fused_updates import FusedUpdates
from ..shards.collectives import none_left_in_flight
from .admission import Admission
from .agreed_passes import AgreedPasses
from .between_passes import BetweenPasses
from .budget_change import BudgetChange
from .choices import Choices
from .comparison import Comparison
from .copies_of_steps import CopiesOfSteps
from .figures import Figures
from .gradient_error import measured_error
from .gradients_in_blocks import GradientsInBlocks
from .graph_report import graph_report
from .graphs import Graphs
from .kept_gradients import KeptGradients
from .meter import Meter
from .passes_of_graph import ONE_PASS_AT_A_TIME
from .place_of_state import PlaceOfState
from .place_of_values import PlaceOfValues
from .planned_graph import PlannedGraph
from .recordable import refuse_recording_from_outside
from .region import Region
from .room_for_pass import RoomForPass
from .room_outside import RoomOutside
from .sizes_of_graph import SizesOfGraph
from .step_plans import StepPlans
from .steps import Steps
from .traced import Again, Traced


class Session:
    """Plans and runs the graphs of one model within one budget.

    ``parameters``: gives those of the whole model, as it is now; none where it is not known.
    ``name``: what the graphs are called in reports.
    While ``preparing``, a graph raises Prepared instead of running.
    """

    def __init__(self, settings: Settings,
                 parameters: Callable[[], Iterable[torch.Tensor]] = tuple, name: str = "graph"):
        self.settings = settings
        self.name = name
        self.regions: list[Region] = []
        self.preparing = False
        #: Whether graphs are for other tensors than the model has, so that not even a pass that
        #: measures something runs.
        self.is_only_planned = False
        #: Of torch.compile, which this session serves; None for a wrapped module.
        self.options: Mapping | None = None
        #: How often Dynamo had given something up, by its reason, before the call that runs.
        self.breaks_before_call: Mapping[str, int] = {}
        #: How often a captured graph was called; each call of the model should come to one.
        self.runs = 0
        #: Why a call ran without a plan, when one did; "" otherwise.
        self.why_unplanned = ""
        #: Called where a step begins, when the figures of the one before are complete.
        self.observers: list[Callable[[], None]] = []
        #: By added graph, what captures it by other settings, where something does.
        self.again: list[Again | None] = []
        #: What is made again when the budget changes.
        self.choices = Choices()
        self._parameters = parameters
        self._steps = Steps(self.regions)
        self._account = BudgetAccount(settings, lambda: self._parameters(), self.regions,
                                      self._steps)
        self._admission = Admission(self.regions, self._account)
        self._gradients = KeptGradients(parameters())
        self._gradients_in_blocks = GradientsInBlocks(self._gradients, self.regions, self._account,
                                                      self._admission)
        self._meter = Meter(self.regions, lambda: self.figures.existing_bytes(),
                            lambda: self.figures.present_state_bytes(),
                            self._gradients_in_blocks)
        self._notices = Notices()
        self._between_passes = BetweenPasses()
        self._state = PlaceOfState(settings, self._account, self._between_passes.lock)
        self._values = PlaceOfValues(self._account, self.regions, settings.may_move)
        self._step_plans = StepPlans(settings, self._account, self._steps, self._values,
                                     self._notices, self._state)
        self._updates = None if settings.fused_update is None else FusedUpdates(
            settings.optimizer, settings.fused_update, lambda: self._parameters())
        self._graphs = Graphs(settings, self._account, self.regions, self._steps, self._state,
                              self._values, self._step_plans, self._updates,
                              lambda: self._parameters(), self._notices)
        self._agreed = AgreedPasses(settings.group, self.regions)
        self.figures = Figures(settings, self._graphs, self._steps, self._step_plans, self._account,
                               self._gradients_in_blocks)
        self._copies = CopiesOfSteps(self._graphs, self._step_plans, self._values, self._notices,
                                     lambda: self.figures.predicted_seconds())
        self._room_for_pass = RoomForPass(self._account, self._admission, self._agreed,
                                          self._step_plans, self._copies, self.regions)
        self._room_outside = RoomOutside(self._account, self._step_plans, self.regions)
        self._change_budget = BudgetChange(
            settings, self._account, self._between_passes, self.choices, self._graphs, self._steps,
            self._step_plans, self._values, self._state, self._admission, self._gradients_in_blocks,
            self._room_outside, self._meter)

    def add(self, traced: Traced, sizes: SizesOfGraph | None = None) -> PlannedGraph:
        """Prices and plans a captured graph together with those that are there. Raises
        InfeasibleError when they do not fit, in the budget or on the device; then nothing is added.

        ``sizes``: those that it is one of, the largest first: that is planned, and the others
        follow it.
        """
        with self._between_passes.lock, self._agreed.failing_together(sizes is not None):
            self._room_outside.step_is_typical = False
            graph = self._graphs.add(traced.captured, traced.trained, traced.stashes, sizes)
            self.again.append(traced.again)
            # Sizes of a range all hold the same in fewer bits, whatever the budget becomes.
            if sizes is None and not self._step_plans.are_compared:
                self.choices.add(lambda undo: self._graphs.choose_again(graph, undo))
            return graph

    def comparing(self, comparison: Comparison) -> contextlib.AbstractContextManager[None]:
        """As of ``Graphs.comparing``."""
        return self._graphs.comparing(comparison)

    def withdraw(self, graphs: Iterable[PlannedGraph]) -> None:
        """As of ``Graphs.withdraw``."""
        with self._between_passes.lock:
            self._graphs.withdraw(graphs)

    def readmit(self, graphs: Iterable[PlannedGraph]) -> None:
        """As of ``Graphs.readmit``."""
        with self._between_passes.lock:
            self._room_outside.step_is_typical = False
            self._graphs.readmit(graphs)

    def search_longer(self, graphs: Iterable[PlannedGraph]) -> None:
        """Where their plans were made by brief searches, better ones are looked for in the
        background."""
        for graph in graphs:
            graph.region.search_longer(self.settings)

    @property
    def time_limit(self) -> float:
        """Seconds for a search that is made now; a step waits for one that is made again."""
        return self._step_plans.limited(self.settings).time_limit

    @property
    def planned(self) -> Sequence[PlannedGraph]:
        """The graphs that run, in the order in which they were added."""
        return tuple(self._graphs.planned)

    @property
    def has_plans(self) -> bool:
        return bool(self.regions)

    def note_unplanned(self, message: str, why: str, cause: str) -> None:
        """A call ran, or would have run, without a plan. Warned of once for each cause."""
        self.why_unplanned = why
        if not self.preparing:
            self._notices.warn_once(cause, message)

    def note_no_slices(self, name: str) -> None:
        self._notices.warn_once(
            "no slices", f"lowtide: nothing in {name} runs in slices, as no op in it treats the "
                         f"rows of the first or second dimension of its inputs apart")

    def note_pieces(self) -> None:
        """Dynamo breaks the model into several graphs."""
        self._step_plans.is_in_pieces = True

    @property
    def is_in_pieces(self) -> bool:
        """Whether a step has graphs that are not known before it runs."""
        return self._step_plans.is_in_pieces

    def next_name(self) -> str:
        """What the next captured graph is called: the first has the model's own name."""
        number = len(self._graphs.planned) + 1
        return self.name if number == 1 else f"{self.name} ({number})"

    def begin_capture(self, device: str) -> None:
        """A graph is about to be captured and its ops measured on the device: blocks that nobody
        needs make room, and what that takes counts as of the step that comes."""
        refuse_recording_from_outside(device)
        if self.preparing or any(region.pending_passes for region in self.regions):
            return
        with self._meter.own_pass():
            self._meter.end()
            self._room_outside.end_step(self._meter.unforeseen_bytes)
            self._admission.release_idle()
        take_lasting_workspaces(device)
        self._meter.capture(device)

    def plan_for(self, region: Region) -> Plan:
        """The plan of a region as things are."""
        return self._step_plans.of(region)

    @property
    def may_exceed(self) -> bool:
        """Whether the settings want that a step runs for which no plan fits."""
        return self._step_plans.may_exceed

    # ---- Steps

    def forward(self, graph: PlannedGraph, primals: Sequence) -> tuple[list, torch.Tensor]:
        """The forward outputs of a graph and its ticket."""
        refuse_recording_from_outside(graph.captured.device)
        self.runs += 1
        if self.preparing:
            if not self.is_only_planned:
                self._rehearse(graph.region, primals)
            raise Prepared
        self._change_budget.note_training_thread()
        with (self._between_passes.one_pass(self._change_budget.end_before_pass),
              ONE_PASS_AT_A_TIME, none_left_in_flight(), self._meter.own_pass(),
              self._agreed.failing_together(graph.region.is_of_a_range)):
            return self._forward(graph.region, primals)

    def _rehearse(self, region: Region, primals: Sequence) -> None:
        """What is to be known before the first step, and needs what the model is called with."""
        self._measure_error(region, primals)
        if self.settings.cuda_graph:
            plan = self.plan_for(region)
            region.passes.rehearse(region.priced.graph, plan, primals)

    def _forward(self, region: Region, primals: Sequence) -> tuple[list, torch.Tensor]:
        if not any(other.pending_passes for other in self.regions):
            if self.settings.group is None or not region.is_of_a_range:  # else known: _rehearse()
                self._measure_error(region, primals)
            self._begin_step(region)
        self._gradients.track(primals)
        if self._steps.observe(region):
            self._account.invalidate()
        plan = self._room_for_pass.forward(region)
        result = region.passes.forward(region.priced.graph, plan, primals)
        self._meter.note_uncounted(region.passes.moves.uncounted_before)
        self._step_plans.has_run = True
        return result

    def _measure_error(self, region: Region, primals: Sequence) -> None:
        """Of the gradients, once, where stashes change them. Of a range, at the largest size."""
        if (region.plain is not None and region.gradient_error is None
                and not all(stash.is_exact for stash in region.stashes)):
            plan = self.plan_for(region)
            try:
                share = self._account.share(region)
            except InfeasibleError:  # it runs all the same
                share = plan.arena_bytes
            region.note_gradient_error(measured_error(region, plan, primals, share))
            warn(f"{region.name} holds activations with loss between the passes, as "
                 f"stash=\"{self.settings.stash}\" allows: {region.gradient_error}")

    def backward(self, graph: PlannedGraph, ticket: torch.Tensor, saved: Sequence[torch.Tensor],
                 tangents: Sequence[torch.Tensor]) -> list:
        """The gradients for a ticket, whose backward pass may have run already (``retain_graph``).

        ``saved``: what autograd saved of the pass, as ``region.passes.saved`` lists it.
        """
        refuse_recording_from_outside(graph.captured.device)
        with (self._between_passes.one_pass(self._change_budget.end_before_pass),
              ONE_PASS_AT_A_TIME, none_left_in_flight(), self._meter.own_pass()):
            region, executor = graph.awaiting(ticket)
            try:
                gradients = self._backward(region, executor, ticket, saved, tangents)
            finally:
                region.executors.release_unused()
                region.passes.end_pass(region.priced.graph)
            self._copies.end_pass(region)
            self._graphs.ran_last = graph
            self._step_plans.has_trained = True
            self._steps.note_trained(region)
        return gradients

    def _backward(self, region: Region, executor, ticket: torch.Tensor,
                  saved: Sequence[torch.Tensor], tangents: Sequence[torch.Tensor]) -> list:
        more = self._agreed.backward(region, executor is None, self._admission.taken_bytes(region))
        if executor is not None:
            gradients = region.passes.backward(executor, tangents, self._will_replay())
            if region.observe_results(self._agreed.held_results(region, executor.held_results)):
                self._account.invalidate()
                self._room_outside.step_is_typical = False
        else:
            region.passes.require_replayable()
            if region not in self.regions:  # another number of slices runs now
                with self._between_passes.lock:
                    self._graphs.retire(region)
            self._clear_gradients(region)
            plan = self._room_for_pass.replay(region, more)
            gradients = region.passes.replay(region.priced.graph, plan, ticket, saved, tangents)
        self._meter.read(0 if self._updates is None else self._updates.take_made_bytes())
        return gradients

    def evaluate(self) -> None:
        """Other work begins, and may have what the training step does not need now. A pass of
        another thread keeps its own."""
        self.runs += 1
        if self.preparing:
            raise Prepared
        self.release()
        self._between_passes.unless_one_runs(self._room_for_pass.bring_back)

    def forget(self) -> None:
        """No forward pass follows. Dynamo may keep the session: where a graph breaks it keeps what
        it compiled as long as the process runs. So the model, its tensors and the blocks are let go
        of; a backward pass that is to come finds what it needs."""
        self.release()
        self.choices.clear()
        self.again.clear()
        for graph in self._graphs.planned:
            graph.forget_all_but_pending()
        self._parameters = tuple
        self._state.let_go()
        if self._updates is not None:
            self._updates.let_go()

    def release(self) -> None:
        """Gives back the blocks that no forward pass waits in; a later step takes them again. While
        a pass runs in another thread it leaves them: in its forward half it does not wait yet."""
        self._between_passes.unless_one_runs(self._release)

    def _release(self) -> None:
        with self._meter.own_pass():
            self._meter.leave()
            self._admission.release_idle()

    def _begin_step(self, region: Region) -> None:
        self._meter.end()
        self._account.note_state(self._meter.state_bytes)
        self._room_outside.see_untypical(self._meter, self._notices)
        for observer in self.observers:
            observer()
        self._steps.begin()
        unforeseen = self._clear_gradients(region)
        self._copies.begin_step(region)
        if not self._values.are_chosen_for(self._steps.of(region)):
            self._step_plans.choose_what_moves(region)
        if self.settings.group is None:  # ranks have one plan, and see unlike numbers of bytes
            self._room_outside.leave_between(self._meter)
        self._room_outside.leave(region, self._steps.of(region), unforeseen)
        self._admission.discarded_passes = False
        step = self._steps.of(region)
        for other in self.regions:
            plan = self._step_plans.known(other) if other in step else None
            other.executors.release_idle(but=plan)
        self._graphs.drop_retired()
        self._meter.begin(region.captured.device)

    def _clear_gradients(self, region: Region) -> int:
        """From blocks, before a pass; what the last step took unforeseen."""
        self._gradients_in_blocks.clear(region)
        unforeseen, kept, holding = self._agreed.begin_step(
            region, self._room_outside.typical(self._meter.unforeseen_bytes),
            self._gradients_in_blocks.kept_bytes,
            self._gradients_in_blocks.holding(), self._admission.taken_bytes(region))
        self._gradients_in_blocks.count(kept, holding)
        return unforeseen

    def _will_replay(self) -> bool:
        """Whether a forward pass is to be replayed before the step is over, so that gradients which
        are passed on to it must leave their block."""
        return (self._admission.discarded_passes
                or torch._C._autograd._get_current_graph_task_keep_graph())

    def set_budget(self, budget: Budget) -> None:
        """As of ``BudgetChange.to``. Ranks set the same one together."""
        if self.settings.group is not None:
            self.settings.group.meet("set a budget", str(budget))
        with self._meter.own_pass():
            self._change_budget.to(budget)

    # ---- Figures

    @property
    def budget_bytes(self) -> int | None:
        return self._account.budget_bytes

    @property
    def gradient_norm(self) -> float | None:
        """Of the last backward pass, where one was and gradients are clipped."""
        return None if self._updates is None else self._updates.gradient_norm

    def memory(self) -> Memory:
        """What a step was planned to take and took, in bytes."""
        if not self.regions:
            fixed = self._account.fixed_bytes
            return Memory(self._account.budget.bytes, fixed, fixed)
        return Memory(self.budget_bytes, self.figures.existing_bytes(), self.figures.peak_bytes(),
                      self._meter.peak_bytes, self._meter.outside_bytes, self._copies.moved,
                      self._state.moved_bytes, self._state.moved, self._copies.slowdown)

    @property
    def state_bytes(self) -> int:
        """What the optimizer holds in memory between two steps, or will hold."""
        return self._account.state_bytes

    def explanation(self, most: int) -> str:
        """The memory of a step, then each graph's peak and recomputations, ``most`` of each: by its
        ops, and by the modules that they were called in."""
        if not self.regions:
            return f"Nothing is planned: {self.why_unplanned or 'no step was run'}."
        parts = [str(self.memory())]
        for graph, plan in self.figures.by_plans:
            parts += graph_report(graph, plan, self.settings, self._values.may_move, most)
        return "\n\n".join(filter(None, parts))
