"""The forward and backward passes of one captured graph."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence

import torch

from ... import Error, Graph, Plan, _runtime
from ..budget.settings import Settings
from ..capture import Captured
from ..capture.captured import BOUNDARY
from ..capture.replayable import why_not_replayable
from ..capture.saved_tensors import tensors_to_save
from ..capture.updates import GradientVisit, updating
from ..optimizer.fused_updates import FusedUpdates
from .executor_values import ExecutorValues
from .executors import Executors
from .moves_of_passes import MovesOfPasses
from .recordable import explained

#: The executor serves the allocator of the whole process, so one pass runs at a time, and what it
#: decided before holds until it is over.
ONE_PASS_AT_A_TIME = threading.RLock()


class PassesOfGraph:
    """Runs a captured graph: ``forward`` with the primals, and ``backward`` in the executor that
    awaits the ticket which it gave.

    The backward pass of a ticket runs once. ``replay`` runs both halves for a ticket whose backward
    pass was run already, or whose block was freed to have the memory for something else.

    ``executors``: which run plans. ``updates``: what updates parameters in a backward pass.
    ``graph``, of methods: the captured one as the plan was made for it.
    """

    def __init__(self, captured: Captured, settings: Settings, executors: Executors,
                 moves: MovesOfPasses, updates: FusedUpdates | None):
        self._captured, self._group = captured, settings.group
        self._executors, self._updates, self.moves = executors, updates, moves
        self._values = ExecutorValues(captured)
        #: The executor of the backward pass that ran last, until its ``end_pass``.
        self._ran: _runtime.Executor | None = None
        self.saved = tensors_to_save(captured)
        self.why_not_replayable = why_not_replayable(captured)
        #: Whether each gradient is given memory of its own, as the caller keeps them.
        self.copies_gradients = False

    @property
    def copied_gradient_bytes(self) -> int:
        """What gradients take beside the block where they were made."""
        return self._values.gradient_bytes if self.copies_gradients else 0

    @property
    def parameter_count(self) -> int:
        """How many of the primals are parameters."""
        return len(self._values.parameters)

    def forward(self, graph: Graph, plan: Plan, primals: Sequence) -> tuple[list, torch.Tensor]:
        """The forward outputs, and the ticket of the pending pass."""
        with ONE_PASS_AT_A_TIME:
            executor = self._idle(graph, plan)
            given = self._values.residents(primals)
            try:
                self.moves.send_away(executor, plan, given)
                with explained(executor, self._captured):
                    found, ticket = executor.forward(given, self._values.forward_wanted)
            except BaseException:
                self.moves.bring_back()
                raise
        return self._values.forward_outputs(found), ticket

    def reserve(self, graph: Graph, plan: Plan) -> None:
        """Takes the room in slower memory that a pass by the plan needs. Raises Error where there
        is none, on whatever rank, so that this is known before a step."""
        group = self._group
        if not plan.slower_bytes:
            return
        if group is None:
            self._idle(graph, plan)
        else:
            group.together("take room in slower memory", lambda: self._idle(graph, plan))

    def rehearse(self, graph: Graph, plan: Plan, primals: Sequence) -> None:
        """Records both halves without a step, so that what cannot be recorded is known by now. Does
        nothing where an op writes what the caller has and cannot run without that."""
        if any(op.mutates and not op.recomputable for op in self._captured.graph.ops
               if op.type != BOUNDARY):
            return
        with ONE_PASS_AT_A_TIME:
            executor = self._idle(graph, plan)
            try:
                with explained(executor, self._captured):
                    executor.rehearse(self._values.residents(primals))
            finally:
                executor.release()

    def backward(self, executor, tangents: Sequence[torch.Tensor], copied: bool = False) -> list:
        """One gradient, or None, for each primal: of the pass that is pending in the executor.

        With ``copied``, those that are no parameter's lie in memory of their own: what goes on to
        other graphs then holds nothing of this one's block.
        """
        with ONE_PASS_AT_A_TIME, explained(executor, self._captured), self._updating():
            self._ran = executor
            found = executor.backward(tangents, self._values.backward_wanted)
        return self._gradients(found, copied)

    def replay(self, graph: Graph, plan: Plan, ticket: torch.Tensor, saved: Sequence[torch.Tensor],
               tangents: Sequence[torch.Tensor]) -> list:
        """The same for a ticket that nobody awaits, gradients ``copied``.

        ``saved``: what autograd saved; of it the primals are needed, as ``self.saved`` lists them.
        """
        with ONE_PASS_AT_A_TIME, self._updating():
            executor = self._ran = self._idle(graph, plan)
            given = self._values.residents_of_saved(dict(zip(self.saved.primals, saved)))
            self.moves.send_away(executor, plan, given)
            found = executor.replay(ticket, given, tangents, self._values.backward_wanted)
        return self._gradients(found, True)

    def visit_gradients(self, graph: Graph, plan: Plan, primals: Sequence,
                        tangents: Sequence[torch.Tensor],
                        visit: Callable[[int, torch.Tensor], None]) -> None:
        """Calls ``visit(position, gradient)`` for each parameter of a pass that updates nothing and
        leaves the primals as they are. A gradient holds until the call returns."""
        parameters = self._values.parameters
        positions = {primals[position].data_ptr(): position for position in parameters}
        given = self._values.with_copies(primals)
        with ONE_PASS_AT_A_TIME:
            self.reserve(graph, plan)
            executor = self._idle(graph, plan)
            seen = GradientVisit(lambda gradient, parameter:
                                 visit(positions[parameter.data_ptr()], gradient))
            with explained(executor, self._captured), updating(seen):
                pending = executor.forward(self._values.residents(given),
                                           self._values.forward_wanted)
                found = executor.backward(tangents, self._values.backward_wanted)
                del pending  # without its ticket the pass would be over
            for position, gradient in enumerate(self._values.gradients(found)):
                if position in parameters and gradient is not None:
                    visit(position, gradient)

    def end_pass(self, graph: Graph) -> None:
        """After a backward pass, when the blocks that it does not need were given back."""
        executor, self._ran = self._ran, None
        self.moves.end_pass(graph, executor)

    @contextlib.contextmanager
    def _updating(self) -> Iterator[None]:
        if self._updates is None:
            yield
            return
        with self._updates.of_backward() as updates, updating(updates):
            yield

    def require_replayable(self) -> None:
        """Raises Error where a backward pass cannot be run a second time."""
        if self.why_not_replayable is not None:
            name = self._captured.graph.name
            raise Error(
                f"the backward pass of {name} was run already, and its forward "
                f"pass cannot be run again for another one: {self.why_not_replayable}. Call "
                f"backward() once for each forward pass (add the losses up instead of "
                f"retain_graph=True), or run this model without Lowtide")

    def discard(self, executor) -> None:
        """Frees the block of a pending pass; its backward pass will replay the forward pass."""
        with ONE_PASS_AT_A_TIME:
            executor.discard()
            executor.release()

    def _idle(self, graph: Graph, plan: Plan):
        return self._executors.idle(plan, graph)

    def _gradients(self, found: list[torch.Tensor], copied: bool) -> list:
        if self.copies_gradients:
            found = [tensor.clone() for tensor in found]
        elif copied:
            found = self._values.with_copies_to_pass_on(found)
        return self._values.gradients(found)
