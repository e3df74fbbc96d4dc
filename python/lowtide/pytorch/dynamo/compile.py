"""Compiles a graph of Dynamo to a callable that a session plans and runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import fx

from ...interruptible import no_interrupt_lost
from ..autograd.session import Session
from ..capture import describe_inputs
from ..shards.evaluation import Gathering
from ..shards.placed_parameters import PlacedParameters
from ..sizes.size_ranges import SizeRanges
from .aot_wrappers import behind_aot_wrappers
from .fast_path import differentiable_results
from .graph_of_sizes import graph_of_sizes
from .joint_trace import JointTrace, trace_joint
from .number_of_slices import FastestSlices
from .retrace_warning import ManyNumbers
from .shapes import (
    PerShape,
    is_symbolic,
    named_numbers,
    number_positions,
    stand_ins,
    with_numbers,
)
from .used_results import Used, detached
from .variants import Variants


def compile_graph(graph: fx.GraphModule, inputs: Sequence, session: Session,
                  ranges: SizeRanges | None = None,
                  placed: PlacedParameters | None = None) -> Callable:
    """The callable of a graph, planned in ``session`` with those that are there. ``ranges``: of the
    sizes of the model's inputs; for those in them the largest is planned. ``placed``: the model's
    parameters where they lie on several ranks; the callable then runs with what is here of them."""
    if placed is None:
        return _compile(graph, inputs, session, ranges, None)
    compiled = _compile(graph, inputs, session, ranges, placed)
    return lambda *given: compiled(*placed.given(given))


def _compile(graph: fx.GraphModule, inputs: Sequence, session: Session,
             ranges: SizeRanges | None, placed: PlacedParameters | None) -> Callable:
    describe_inputs(graph, inputs)  # while Dynamo knows
    numbers = number_positions(graph)
    if ranges is not None and not numbers and torch.is_grad_enabled():
        for_all = graph_of_sizes(graph, inputs, session, ranges)
        if for_all is not None:
            return for_all
    if numbers or any(is_symbolic(value) for value in inputs):
        def compile_for(*given):
            values = {position: given[position].item() for position in numbers}
            return _compile_for(with_numbers(graph, values), given, session, placed)
        return PerShape(compile_for, numbers, named_numbers(graph), ManyNumbers(session.name))
    return _compile_for(graph, inputs, session, placed)


def _compile_for(graph: fx.GraphModule, inputs: Sequence, session: Session,
                 placed: PlacedParameters | None) -> Callable:
    """Raises InfeasibleError where there is no plan."""
    source = _Source(graph, session, session.next_name(), placed)
    inputs = source.as_traced(inputs)
    slices = session.settings.slices
    if not isinstance(slices, int):
        described = stand_ins(graph, inputs)
        return FastestSlices(session, source.name, lambda number: source.trace(described, number),
                             lambda trace: source.planned(trace, described)).choose()
    trace = source.trace(inputs, slices)
    if not isinstance(trace, JointTrace):
        return trace
    if trace.slices == 1 < slices:
        session.note_no_slices(source.name)
    return source.planned(trace, inputs)


@dataclasses.dataclass(frozen=True)
class _Source:
    """A graph of Dynamo. It outlives the inputs that it is traced with, and holds none."""

    graph: fx.GraphModule
    session: Session
    name: str
    placed: PlacedParameters | None

    def as_traced(self, inputs: Sequence) -> Sequence:
        """Parameters that lie in shards with their whole shapes."""
        if self.placed is None:
            return inputs
        names = [name for _, name in describe_inputs(self.graph, inputs)]
        return self.placed.as_traced(inputs, names)

    def trace(self, inputs: Sequence, slices: int) -> JointTrace | Callable:
        return trace_joint(self.graph, inputs, self.name, self._evaluate, slices,
                           self.session.settings)

    def planned(self, full: JointTrace, inputs: Sequence) -> Callable:
        """Raises InfeasibleError."""
        self.session.begin_capture(full.captured.device)
        # Under no_grad, what needs gradients is connected within the graph.
        results = (differentiable_results(self.graph, inputs, full)
                   if torch.is_grad_enabled() else None)
        if results is None:
            return behind_aot_wrappers(full, self.session)
        variants = Variants(full, results, self.session, self._trace_again(full, results))
        variants.prepare(inputs)
        return variants

    def _trace_again(self, full: JointTrace, results: Sequence[int]) -> Callable:
        def trace_again(primals: Sequence, used: Used) -> JointTrace:
            written = len(full.metadata.mutated_inp_runtime_indices)
            unused = [position - written for position, is_used in zip(results, used)
                      if not is_used]
            which = f"{self.name}, gradients of {sum(used)} of {len(used)} results"
            with no_interrupt_lost():
                found = trace_joint(detached(self.graph, unused), self.as_traced(primals), which,
                                    self._evaluate, full.slices, self.session.settings)
            assert isinstance(found, JointTrace), "some result is differentiated"
            return found

        return trace_again

    def _evaluate(self, run: Callable, arguments: Sequence):
        self.session.evaluate()
        shards = self.placed.shards_among(arguments) if self.placed is not None else {}
        if shards:
            self.session.settings.group.meet("evaluate a model", self.name)
            return Gathering(run, shards, self.session.settings.layout.sharing).run_on(arguments)
        return run(*arguments)
