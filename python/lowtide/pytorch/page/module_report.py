"""The page of a wrapped module: its graphs, and the whole step around them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import torch

from ...formats import ShownPlan
from ...page import Report, report_of_graph, write_page
from ..autograd.session import Session
from ..planned_class import session_of
from .estimates import estimated_savings
from .executor_step import executor_step
from .inductor_step import inductor_step
from .shown_module import ShownModule


def report_of_module(model: torch.nn.Module, path: str | os.PathLike[str],
                     step: Callable[[], object] | None, example_inputs: object,
                     time_limit: float) -> pathlib.Path:
    """As of ``lowtide.report``, which says where the page was written."""
    session = session_of(model)
    found = _shown(model, step)
    each = time_limit / len(found.graphs)
    graphs = [report_of_graph(one.graph, one.plan, one.origins, one.held, each, one.compiled)
              for one in found.graphs]
    advice = ([] if example_inputs is None
              else estimated_savings(model, example_inputs, session.settings))
    return write_page(Report(session.name, found.figures, found.lead, graphs, advice), path)


def plans_of_module(model: torch.nn.Module) -> list[ShownPlan]:
    """Of each graph. Raises InputError as ``report_of_module``."""
    return [ShownPlan(one.graph, one.plan, one.origins,
                      one.compiled.again if one.compiled else frozenset())
            for one in _shown(model, None).graphs]


def _shown(model: torch.nn.Module, step: Callable[[], object] | None) -> ShownModule:
    session = session_of(model)
    if isinstance(session, Session):
        return executor_step(session, step)
    return inductor_step(session, step)
