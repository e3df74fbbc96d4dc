"""What a page shows of a module that Lowtide's executor runs."""

from __future__ import annotations

from collections.abc import Callable

from ... import InputError, _runtime
from ...page import MeasuredMemory, Origin, origins_of_names
from ..autograd.planned_graph import PlannedGraph
from ..autograd.session import Session
from .sampling import measured_step
from .shown_module import ShownGraph, ShownModule, held_beside, memory_figures, origin_of


def executor_step(session: Session, step: Callable[[], object] | None = None) -> ShownModule:
    """``step``: is run and measured. Raises InputError where there is no plan to show."""
    if not session.regions:
        raise InputError(f"nothing is planned: {session.why_unplanned or 'no step was run'}. Give "
                         f"wrap the example_inputs, or run a step before")
    measured = None if step is None else _measured(session, step)
    memory, time = session.memory(), session.figures.predicted()
    figures = [*memory_figures(memory), ("passes, predicted", f"{1e3 * time.seconds:.1f} ms"),
               ("time above keep-all", f"{time.overhead:.2%}")]
    graphs = []
    for graph, plan in session.figures.by_plans:
        priced = graph.region.priced.graph
        held = held_beside(memory, session.state_bytes, priced, measured)
        graphs.append(ShownGraph(priced, plan, _origins(graph), held))
    return ShownModule(figures, f"A step: {memory}.", graphs)


def _measured(session: Session, step: Callable[[], object]) -> MeasuredMemory:
    """What existed before the step is added as the session counts it, as in its measured peak."""
    device = session.regions[0].captured.device
    held = sum(executor.held_bytes for region in session.regions for executor in region.executors)
    before = session.memory().existing - (_runtime.taken_bytes(device) - held)
    measured = measured_step(step, lambda: _runtime.taken_bytes(device))
    return measured.above(before, "; the block of a plan is taken as a whole")


def _origins(graph: PlannedGraph) -> list[Origin]:
    ops, nodes = graph.region.priced.graph.ops, graph.region.captured.nodes
    if len(nodes) != len(ops):
        return origins_of_names(ops)
    return [Origin() if node is None else origin_of(node) for node in nodes]
