"""A traced graph as a function of autograd, planned for the results that the loss uses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NoReturn

import torch
from torch import fx

from ... import Error, _runtime
from ..autograd.planned_graph import PlannedGraph
from ..autograd.region import Region
from ..autograd.session import Session
from ..capture.replayable import why_not_replayable
from ..common.one_trace import ONE_TRACE_AT_A_TIME
from .joint_trace import JointTrace
from .used_results import Used, likely_used, tangents_of_gradients, without_unused


class Variants:
    """Runs a graph by the region of the results that the last backward pass had tangents for.

    ``full`` is the trace in which all results get gradients, ``results`` the positions of those
    that require one among the forward outputs. ``trace(primals, used)`` traces the graph again for
    some of them only. A backward pass for other results than the region was planned for runs the
    forward pass again, by the region of all results with zeros for what is unused; where a forward
    pass cannot run again, that region serves always.

    ``add``: takes a trace into the session, as the one for the results that the loss uses.
    ``expected``: the results that the loss of another size used; ``full`` is then of another size,
    and each trace of this one is made by ``trace``.
    """

    def __init__(self, full: JointTrace, results: Sequence[int], session: Session,
                 trace: Callable[[Sequence, Used], JointTrace],
                 add: Callable[[JointTrace, Used], PlannedGraph] | None = None,
                 expected: Used | None = None):
        self._full, self._results, self._session, self._trace = full, results, session, trace
        self._all_used: Used = (True,) * len(results)
        self._reached = tangents_of_gradients(full.joint, len(full.captured.forward_outputs))
        self._traces: dict[Used, JointTrace] = {self._all_used: full} if expected is None else {}
        self._graphs: dict[Used, PlannedGraph] = {}
        self._functions: dict[Used, Callable] = {}
        self._add = add or (lambda trace, _: session.add(trace))
        self.expected = self._all_used if expected is None else expected
        self._last: Used | None = None
        self._met: set[Used] = set()

    def prepare(self, inputs: Sequence) -> None:
        """Captures and plans for the results that the loss is likely to use."""
        self.expected = self._plannable(likely_used(self._values(self._full)))
        self._function(inputs)

    def __call__(self, *primals):
        return self._function(primals)(*primals)

    def _function(self, primals: Sequence) -> Callable:
        used = self.expected
        if used not in self._functions:
            with ONE_TRACE_AT_A_TIME:
                self._prepare_for(used, primals)
        return self._functions[used]

    def _prepare_for(self, used: Used, primals: Sequence) -> None:
        trace = self._traced(used, primals)
        if used not in self._functions:
            self._functions[used] = self._differentiable(used, trace)

    def _traced(self, used: Used, primals: Sequence = ()) -> JointTrace:
        if used not in self._traces:
            self._traces[used] = self._trace(primals, used)
        return self._traces[used]

    def _differentiable(self, used: Used, trace: JointTrace) -> Callable:
        graph, saved = self._graph(used), trace.saved
        return _runtime.Differentiable(
            forward=functools.partial(self._session.forward, graph),
            backward=functools.partial(self._backward, used),
            saved_primals=saved.primals, saved_results=saved.results,
            written=self._full.metadata.mutated_inp_runtime_indices,
            with_gradients=self._with_gradients(),
            derived=[(position, value.stride())
                     for position, value in zip(self._results, self._values(trace))])

    def _with_gradients(self) -> list[int]:
        """The primals that have gradients, those that the graph uses for updates too: so autograd
        knows whether they are wanted."""
        gradients = self._full.joint.graph.output_node().args[0]
        return [position for position, gradient
                in enumerate(gradients[len(self._full.captured.forward_outputs):])
                if isinstance(gradient, fx.Node)]

    def _graph(self, used: Used) -> PlannedGraph:
        if used not in self._graphs:
            with ONE_TRACE_AT_A_TIME:
                if used not in self._graphs:  # by another thread
                    self._graphs[used] = self._add(self._traced(used), used)
        return self._graphs[used]

    def _values(self, trace: JointTrace) -> list[torch.Tensor]:
        """The results that require gradients, as fake tensors."""
        outputs = trace.joint.graph.output_node().args[0]
        return [outputs[position].meta["val"] for position in self._results]

    def _plannable(self, used: Used) -> Used:
        return used if why_not_replayable(self._full.captured) is None else self._all_used

    def _backward(self, planned: Used, ticket: torch.Tensor, saved: Sequence[torch.Tensor],
                  tangents: Sequence[torch.Tensor | None]) -> list:
        """One gradient, or None, for each primal. ``planned``: the variant that made the ticket."""
        used = tuple(tangent is not None for tangent in tangents)
        graph = self._graphs[planned]
        region, waiting = graph.awaiting(ticket)
        if waiting is not None:
            self.expected = self._next_expected(used)
        if used == planned:
            given = [tangent for tangent in tangents if tangent is not None]
            return self._session.backward(graph, ticket, saved, given)
        if self._session.settings.fused_update is not None:
            self._refuse_zeros(region, waiting, used)
        if planned != self._all_used:
            if waiting is not None:
                region.passes.discard(waiting)
            saved = self._saved_of_full(self._traces[planned], saved)
        return self._with_zeros(ticket, saved, tangents)

    def _with_zeros(self, ticket: torch.Tensor, saved: Sequence[torch.Tensor],
                    tangents: Sequence[torch.Tensor | None]) -> list:
        given = [_zeros(value) if tangent is None else tangent
                 for value, tangent in zip(self._values(self._traced(self._all_used)), tangents)]
        found = self._session.backward(self._graph(self._all_used), ticket, saved, given)
        return without_unused(found, self._reached,
                              [tangent is not None for tangent in tangents])

    def _refuse_zeros(self, region: Region, waiting, used: Used) -> NoReturn:
        """Updates by gradients of zeros are none that eager PyTorch makes."""
        if waiting is not None:
            region.passes.discard(waiting)
        self.expected = self._plannable(used)
        raise Error(f"the loss uses other results of {self._full.captured.graph.name} than the "
                    f"step was planned for, and with fused_update=True the parameters behind the "
                    f"others would be updated too. Nothing was updated: run the step again, "
                    f"which is planned for these results now; or, where losses take turns, leave "
                    f"fused_update out")

    def _saved_of_full(self, trace: JointTrace, saved: Sequence[torch.Tensor]) -> list:
        """The primals that the region of all results wants, of those that another trace saved."""
        known = dict(zip(trace.saved.primals, saved))
        missing = [position for position in self._full.saved.primals if position not in known]
        if missing:
            raise Error(f"{self._full.captured.graph.name}: the loss uses other results than in "
                        f"the last step, and their gradients need an input that was not saved; "
                        f"run the step again")
        return [known[position] for position in self._full.saved.primals]

    def _next_expected(self, used: Used) -> Used:
        """The results that the next step is planned for: those of this one; where the loss goes
        back to results of earlier steps, all that it was seen to use."""
        if used == self._last:
            return self.expected
        goes_back = used in self._met
        self._last = used
        self._met.add(used)
        return self._plannable(tuple(map(any, zip(*self._met))) if goes_back else used)


def _zeros(value: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                               device=value.device).zero_()
