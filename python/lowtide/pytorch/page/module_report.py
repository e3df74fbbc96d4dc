"""What a page shows of a wrapped module: its graphs, and the whole step around them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import torch

from ... import InputError, Plan, format_bytes
from ...formats import ShownPlan
from ...page import (
    GraphReport,
    HeldBeside,
    MeasuredMemory,
    Origin,
    Report,
    origins_of_names,
    report_of_graph,
    write_page,
)
from ...source_line import SourceLine
from ..autograd.planned_graph import PlannedGraph
from ..autograd.session import Session
from ..budget.memory import Memory
from ..capture.module_path import module_of
from ..capture.user_line import user_line
from ..planned_class import session_of
from .estimates import estimated_savings
from .sampling import measured_step


def report_of_module(model: torch.nn.Module, path: str | os.PathLike[str],
                     step: Callable[[], object] | None, example_inputs: object,
                     time_limit: float) -> pathlib.Path:
    """As of ``lowtide.report``, which says where the page was written."""
    session = _planned_session(model)
    measured = None if step is None else measured_step(session, step)
    graphs = session.figures.by_plans
    shown = [_graph_report(session, graph, plan, measured, time_limit / len(graphs))
             for graph, plan in graphs]
    advice = ([] if example_inputs is None
              else estimated_savings(model, example_inputs, session.settings))
    report = Report(session.name, _figures(session), f"A step: {session.memory()}.", shown, advice)
    return write_page(report, path)


def plans_of_module(model: torch.nn.Module) -> list[ShownPlan]:
    """Of each graph. Raises InputError as ``report_of_module``."""
    return [ShownPlan(graph.region.priced.graph, plan, _origins(graph))
            for graph, plan in _planned_session(model).figures.by_plans]


def _planned_session(model: torch.nn.Module) -> Session:
    """Raises InputError where there is no plan to show."""
    session = session_of(model)
    if not isinstance(session, Session):
        raise InputError("a report shows the plans of mode=\"executor\"; of a module that Inductor "
                         "compiles there is lowtide.explain")
    if not session.regions:
        raise InputError(f"nothing is planned: {session.why_unplanned or 'no step was run'}. Give "
                         f"wrap the example_inputs, or run a step before")
    return session


def _figures(session: Session) -> list[tuple[str, str]]:
    memory, time = session.memory(), session.figures.predicted()
    measured = format_bytes(memory.measured_peak) if memory.measured_peak else "no step was run"
    return [("budget", "none" if memory.budget is None else format_bytes(memory.budget)),
            ("planned peak", format_bytes(memory.planned_peak)), ("measured peak", measured),
            ("existed before the step", format_bytes(memory.existing)),
            ("passes, predicted", f"{1e3 * time.seconds:.1f} ms"),
            ("time above keep-all", f"{time.overhead:.2%}")]


def _graph_report(session: Session, graph: PlannedGraph, plan: Plan,
                  measured: MeasuredMemory | None, time_limit: float) -> GraphReport:
    memory, priced = session.memory(), graph.region.priced
    state = session.state_bytes
    held = HeldBeside(beside=max(0, memory.existing - state - priced.resident_bytes), state=state,
                      levels=_levels(memory), measured=measured)
    return report_of_graph(priced.graph, plan, _origins(graph), held, time_limit)


def _levels(memory: Memory) -> dict[str, int]:
    found = {"budget": memory.budget, "planned peak": memory.planned_peak,
             "measured peak": memory.measured_peak}
    return {name: size for name, size in found.items() if size}


def _origins(graph: PlannedGraph) -> list[Origin]:
    ops, nodes = graph.region.priced.graph.ops, graph.region.captured.nodes
    if len(nodes) != len(ops):
        return origins_of_names(ops)
    return [Origin() if node is None else Origin(module_of(node)[0], _near(user_line(node)))
            for node in nodes]


def _near(line: SourceLine | None) -> SourceLine | None:
    """A line of a file of this folder, less the folder."""
    return line and line._replace(file=line.file.removeprefix(os.getcwd() + os.sep))
