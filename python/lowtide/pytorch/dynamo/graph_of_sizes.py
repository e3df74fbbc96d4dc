"""A graph of Dynamo with open sizes as one call for all sizes of its ranges."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from torch import fx

from ... import Graph, InfeasibleError
from ..autograd.planned_graph import PlannedGraph
from ..autograd.session import Session
from ..autograd.sizes_of_graph import SizesOfGraph
from ..plans.planning import NoPlan, Refusal, measure, measure_here
from ..plans.size_family import SizeFamily
from ..sizes.every_size import EverySize
from ..sizes.open_sizes import OpenSizes, Sizes
from ..sizes.size_ranges import SizeRanges, sizes_text
from ..slices import SliceOrder
from .fast_path import differentiable_results
from .joint_trace import JointTrace
from .open_trace import OpenTrace, trace_open
from .used_results import Used, detached
from .variants import Variants

#: At how many sizes ops are measured, and those that do not keep all are planned.
_MEASURED = 4


def graph_of_sizes(graph: fx.GraphModule, inputs: Sequence, session: Session,
                   ranges: SizeRanges) -> GraphOfSizes | None:
    """The graph for all sizes of the ranges of the call under way for which it holds, the largest
    of which is planned in ``session``. None where the call has none, and where that cannot be,
    which is said. Raises InfeasibleError where the largest has no plan."""
    places = ranges.of_inputs(inputs)
    fakes = [node.meta.get("example_value") for node in graph.graph.find_nodes(op="placeholder")]
    if not places or not OpenSizes(fakes, places).are_in_ranges:
        return None
    full = trace_open(graph, fakes)
    if full is None:  # no gradients
        return None
    open_sizes = OpenSizes(fakes, places)
    covered = open_sizes.covered()
    if not covered:
        ranges.give_up("its code is for other sizes than those")
        return None
    every = EverySize(full.joint, open_sizes, covered)
    found = GraphOfSizes(graph, fakes, open_sizes, every, full, session)
    if not found.can_be_prepared:
        ranges.give_up("a result of the model is a view of another tensor, or an input that needs "
                       "a gradient is written")
        return None
    found.prepare()
    exceeding = every.exceeding()
    if exceeding:
        ranges.give_up(f"some value takes more at {_text(open_sizes, exceeding[0])} than at "
                       f"{_text(open_sizes, every.largest)}")
    ranges.cover(open_sizes.names(sizes) for sizes in covered)
    return found


class GraphOfSizes:
    """Runs the graph at the sizes of each call: the joint graph is traced once, and made one of
    those sizes when they come. ``fakes``: its inputs, with symbols for sizes; ``full``: its joint
    graph, in which all results get gradients."""

    def __init__(self, graph: fx.GraphModule, fakes: Sequence, open_sizes: OpenSizes,
                 every: EverySize, full: OpenTrace, session: Session):
        self._graph, self._fakes, self._open = graph, fakes, open_sizes
        self._session, self._name = session, session.next_name()
        self._largest, self._measured = every.largest, every.spread(_MEASURED)
        self._traces: dict[Used, OpenTrace] = {}
        self._orders: dict[OpenTrace, SliceOrder | None] = {}
        self._planned: dict[Used, tuple[PlannedGraph, SizesOfGraph]] = {}
        self._variants: dict[tuple[int, ...], Variants] = {}
        self._latest: Variants | None = None
        self._full = full
        self._full_largest = self._at(full, self._largest)
        self._results = differentiable_results(graph, fakes, self._full_largest)

    @property
    def can_be_prepared(self) -> bool:
        """Whether the graph runs as one function of autograd, without AOTAutograd's wrappers."""
        return self._results is not None

    def prepare(self) -> None:
        """Plans the largest size. Raises InfeasibleError, which names it."""
        self._session.begin_capture(self._full_largest.captured.device)
        variants = self._variants_of(self._largest)
        try:
            variants.prepare(())
        except InfeasibleError as error:
            smallest = getattr(error, "smallest_budget", None)
            message = (f"at {_text(self._open, self._largest)}, the largest that dynamic_shapes "
                       f"allows: {error}")
            raise NoPlan(Refusal(message), smallest) from None
        self._variants[tuple(self._largest.values())] = self._latest = variants

    def __call__(self, *inputs):
        sizes = self._open.of_call(inputs)
        key = tuple(sizes.values())
        if key not in self._variants:
            self._session.begin_capture(self._full_largest.captured.device)
            self._variants[key] = self._variants_of(sizes)
        self._latest = self._variants[key]
        return self._latest(*inputs)

    def _variants_of(self, sizes: Sizes) -> Variants:
        def trace(_, used: Used) -> JointTrace:
            return self._at(self._trace_for(used), sizes)

        def add(found: JointTrace, used: Used) -> PlannedGraph:
            return self._planned_at(found, used, sizes)

        expected = None if self._latest is None else self._latest.expected
        return Variants(self._full_largest, self._results, self._session, trace, add, expected)

    def _trace_for(self, used: Used) -> OpenTrace:
        """The joint graph in which only the used results get gradients."""
        if all(used):
            return self._full
        if used not in self._traces:
            written = len(self._full.metadata.mutated_inp_runtime_indices)
            unused = [position - written for position, is_used in zip(self._results, used)
                      if not is_used]
            found = trace_open(detached(self._graph, unused), self._fakes)
            assert found is not None, "some result is differentiated"
            self._traces[used] = found
        return self._traces[used]

    def _at(self, trace: OpenTrace, sizes: Sizes) -> JointTrace:
        settings = self._session.settings
        assert isinstance(settings.slices, int), "others are refused"
        follows = settings.slices > 1 and sizes != self._largest
        return trace.at(sizes, f"{self._name} at {_text(self._open, sizes)}", settings.slices,
                        settings, self._order_of_slices(trace) if follows else None)

    def _order_of_slices(self, trace: OpenTrace) -> SliceOrder | None:
        """At the largest size, for all others."""
        if trace not in self._orders:
            self._orders[trace] = trace.order_of_slices(self._largest)
        return self._orders[trace]

    def _planned_at(self, found: JointTrace, used: Used, sizes: Sizes) -> PlannedGraph:
        """That of the largest is there before those of the others."""
        if used not in self._planned:
            self._planned[used] = self._planned_at_largest(used)
        largest, known = self._planned[used]
        if sizes == self._largest:
            return largest
        return self._session.add(found, known)

    def _planned_at_largest(self, used: Used) -> tuple[PlannedGraph, SizesOfGraph]:
        settings, device = self._session.settings, self._full_largest.captured.device
        trace = self._trace_for(used)
        measured = [self._at(trace, sizes) for sizes in self._measured]
        largest = (measured[-1] if self._measured[-1] == self._largest
                   else self._at(trace, self._largest))

        def captured_at(found: JointTrace, names: tuple[str, ...]) -> Graph:
            chosen = found.stashes.named(names)
            return (found.stashes.captured_with(chosen) if chosen else found.captured).graph

        known = SizesOfGraph(SizeFamily(
            [functools.partial(captured_at, found) for found in measured],
            lambda graph, microseconds: measure(graph, device, settings, microseconds),
            lambda graph: measure_here(graph, device, settings)))
        # All sizes have the ops of the largest.
        everywhere = set.intersection(*({stash.name for stash in found.stashes.possible}
                                        for found in [*measured, largest]))
        planned = dataclasses.replace(largest, stashes=largest.stashes.only(everywhere))
        return self._session.add(planned, known), known


def _text(open_sizes: OpenSizes, sizes: Sizes) -> str:
    return sizes_text(open_sizes.names(sizes))
