"""Lowtide: training within a budget of bytes.

Load a graph, plan within a budget, look at the plan:

    import lowtide

    graph = lowtide.Graph.load("resnet50.json")
    found = lowtide.plan(graph, "60%", time_limit=10)
    print(found.outcome, found.overhead, found.gap)
    print(lowtide.explain(graph, found.plan))
    found.plan.save("plan.json")

Or train a PyTorch module within a budget (this part, and it alone, needs torch):

    model = lowtide.wrap(model, example_inputs, budget="6GiB")
    print(model.memory, lowtide.explain(model))

What is wrong with a file or a value is an ``InputError`` that says where and what to do. That no
plan was found is no error of ``plan``: ``Planned.outcome`` and ``Planned.message`` say so; a module
that cannot be trained within its budget is an ``InfeasibleError``.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import weakref
from collections.abc import Callable, Mapping

try:
    from . import _core
except ImportError as _error:
    raise ImportError(
        f"the compiled part of Lowtide does not load: {_error}. It belongs to one version of "
        f"Python: build Lowtide with the one that runs (docs/how-to/install.md)", name=_error.name,
        path=_error.path) from None

from ._core import (
    Error,
    Estimate,
    Frontier,
    Graph,
    InfeasibleError,
    InputError,
    Op,
    Plan,
    Planned,
    Replay,
    StoppedError,
    Strategy,
    StrategyOption,
    Tensor,
    Violation,
    default_strategy,
    format_bytes,
    keep_all,
    memory_plot,
    replay,
    strategies,
    structural_floor_bytes,
    verify,
    write_trace,
)
from .arguments import (
    budget_text,
    checked_count,
    checked_graph,
    checked_options,
    checked_seconds,
    checked_strategy,
    checked_switch,
)
from .interruptible import interruptible
from .lazy import lazily
from .notebook import show_core_classes

__all__ = [
    "Error", "Estimate", "Frontier", "Graph", "InfeasibleError", "InputError", "Op", "Plan",
    "Planned", "Replay", "StoppedError", "Strategy", "StrategyOption", "Tensor", "Violation",
    "default_strategy", "estimate", "explain", "format_bytes", "frontier", "keep_all",
    "memory_plot", "plan", "replay", "report", "strategies", "structural_floor_bytes", "verify",
    "wrap", "write_trace",
]

#: What needs torch, by the module that has it: loaded when it is first asked for.
_WITH_TORCH = {
    "capture": ".pytorch.capture",
    "Checkpointer": ".pytorch.ranks",
    "CommunicationCosts": ".pytorch.ranks",
    "Communicator": ".pytorch.ranks",
    "compile_within": ".pytorch.inductor",
    "from_deepspeed": ".pytorch.tune",
    "FusedUpdate": ".pytorch.common.fused_update",
    "gradient_norm": ".pytorch.wrap",
    "live": ".pytorch.live",
    "max_batch": ".pytorch.max_batch",
    "memory": ".pytorch.explanation",
    "metrics": ".pytorch.metrics",
    "micro_batches": ".pytorch.micro_batches",
    "Offload": ".pytorch.budget.offload",
    "pipeline": ".pytorch.pipeline",
    "RankError": ".pytorch.ranks",
    "set_budget": ".pytorch.wrap",
    "tune": ".pytorch.tune",
    "Watchdog": ".pytorch.ranks",
    "wrap": ".pytorch.wrap",
}


__getattr__ = lazily(__name__, _WITH_TORCH)
show_core_classes()


def plan(
    graph: Graph,
    budget: int | str,
    strategy: str | Strategy | None = None,
    *,
    options: Mapping[str, float | str] | None = None,
    time_limit: float = 0.0,
    cache: bool = True,
) -> Planned:
    """Plans within a budget: bytes (``800_000_000``), ``"1.5GiB"`` or ``"60%"`` of keep-all's peak.

    ``strategy`` is a name of ``strategies()``; the default one when it is None. ``options`` are its
    ``Strategy.options``, such as ``{"moves": 1000, "restarts": False}``. ``time_limit`` is
    in seconds; 0 is none. ``cache``: whether a cheaper plan that fits is the answer when an earlier
    call found one for this graph object, strategy and options: then more memory or time is never
    answered by a worse plan than less was. Other threads run meanwhile. Ctrl-C ends the search and
    raises KeyboardInterrupt.
    """
    checked_graph(graph)
    name, chosen = checked_strategy(strategy), checked_options(options or {})
    seconds = checked_seconds(time_limit, zero_is_none=True)
    limit = _core.Budget(budget_text(budget))
    known = _known_plans(graph, name, chosen) if cache else None
    arguments = (graph, limit, name, chosen, seconds, known)
    return interruptible(lambda: _core.plan(*arguments), _core)


#: By graph, as long as it lives, then by strategy and options.
_KNOWN: weakref.WeakKeyDictionary[Graph, dict] = weakref.WeakKeyDictionary()


def _known_plans(graph: Graph, strategy: str | None, options: Mapping[str, float | str]):
    by_search = _KNOWN.setdefault(graph, {})
    return by_search.setdefault((strategy, *sorted(options.items())), _core.KnownPlans())


def frontier(
    graph: Graph,
    points: int = 9,
    strategy: str | Strategy | None = None,
    *,
    options: Mapping[str, float | str] | None = None,
    time_limit: float = 0.0,
) -> Frontier:
    """What every budget costs, from keep-all's peak down to the smallest that ``strategy`` reaches.

    ``points`` budgets, 2 to 1000, evenly spaced; ``time_limit`` is in seconds for all of them
    together, 0 is none. Ctrl-C raises KeyboardInterrupt.
    """
    arguments = (checked_graph(graph), checked_count("points", points, 2, 1000),
                 checked_strategy(strategy), checked_options(options or {}),
                 checked_seconds(time_limit, zero_is_none=True))
    return interruptible(lambda: _core.frontier(*arguments), _core)


def explain(subject, plan: Plan | None = None, most: int = 10) -> str:
    """Where the memory goes and what runs again, in words; at most ``most`` lines of a kind.

    ``subject``: a graph, with its ``plan``; or a module that ``wrap`` returned.
    """
    most = checked_count("most", most, least=0)
    if plan is not None:
        return _core.explain(subject, plan, most)
    with_torch = importlib.import_module(".pytorch.explanation", __name__)  # torch is optional
    return with_torch.explanation(subject, most)


def report(
    subject,
    path: str | os.PathLike[str],
    plan: Plan | None = None,
    *,
    run: str | os.PathLike[str] | None = None,
    step: Callable[[], object] | None = None,
    example_inputs: object = None,
    time_limit: float = 20.0,
    format: str | None = None,
) -> pathlib.Path:
    """Writes one page of HTML that shows a plan: memory over time, addresses, the schedule, and
    what is kept, run again and moved, and why. It needs no network. Returns where it was written.

    ``subject``: a graph, with its ``plan``; or a module that ``wrap`` returned, of which with
    ``mode="inductor"`` the kind of call is shown that ran last. ``run``: for a graph, the trace
    that ``lowtide train --trace`` wrote of a step by this plan. ``step``: for a module, a function
    that runs one step of training; it is called once, and memory is measured.
    ``example_inputs``: for a module, as of ``wrap``; then its memory in bf16 and with half of the
    rows is estimated. ``time_limit``: seconds for plans within other budgets; 0: none are made.

    ``format``: "page", or what another tool reads: "trace" (Perfetto), "snapshot" (PyTorch's
    memory_viz), "dot" (Graphviz), "csv" (buffers, as MiniMalloc has them). None: by the suffix of
    the file, ``.json``, ``.pickle``, ``.dot``, ``.csv``; of all others, a page. Raises InputError
    where a page is asked for and plotly is not installed: ``pip install "lowtide[report]"``.
    """
    formats = importlib.import_module(".formats", __name__)
    kind = formats.checked_format(format, path)
    seconds = checked_seconds(time_limit, zero_is_none=True)
    of_graph = plan is not None or isinstance(subject, Graph)
    if of_graph and (plan is None or step is not None or example_inputs is not None):
        raise InputError("a graph is shown with its plan, and by no step: "
                         "lowtide.report(graph, path, plan)")
    if step is not None and not callable(step):
        raise InputError(f"step must be a function that runs one step of training, not "
                         f"{type(step).__name__}: give lambda: train_step(batch), for example")
    if not of_graph and run is not None:
        raise InputError("run is for a graph and its plan; of a module, give a step to measure")
    if kind != formats.PAGE:
        if not (run is None and step is None and example_inputs is None):
            raise InputError(f"run, step and example_inputs are for a page, and this is a {kind}: "
                             f"leave them out, or give a file whose name ends in .html")
        shown = ([formats.ShownPlan.of_files(checked_graph(subject), plan)] if of_graph
                 else _page_of_modules().plans_of_module(subject))
        return formats.write_plans(shown, path, kind)
    if of_graph:
        page = importlib.import_module(".page", __name__)
        return page.write_page(page.report_of_plan(checked_graph(subject), plan, run, seconds),
                               path)
    return _page_of_modules().report_of_module(subject, path, step, example_inputs, seconds)


def _page_of_modules():
    return importlib.import_module(".pytorch.page", __name__)  # torch is optional


def estimate(
    subject,
    example_inputs: object = None,
    *,
    optimizer: object = None,
    precision: str | None = None,
    budget: int | str | None = None,
    measure: bool | None = None,
    batch: int = 1,
    length: int | None = None,
    time_limit: float = 30.0,
) -> Estimate:
    """The memory of a training step before it runs, when every value is kept.

    ``subject``: a graph; a PyTorch module or function, with its ``example_inputs`` (as of
    ``capture``); or a configuration of Hugging Face's transformers, as an object or the path of a
    ``config.json``, with ``batch`` sequences of ``length`` tokens, or images. Of these, a step of
    eager PyTorch is traced, forward, backward and update, on tensors without memory; a model on the
    device ``meta`` stays there. ``print()`` shows the result, ``to_json()`` is for programs.

    ``optimizer``: the optimizer, its class, a name such as ``"adamw"``, ``"none"``; None for Adam.
    ``precision``: "bf16" or "fp16" for ``torch.autocast``. ``measure``: whether each different op
    runs once on this machine to measure its workspaces; None: for models that are not on ``meta``.
    Python code of the model, hooks included, runs twice, on tensors without memory: for the step
    that makes the optimizer's state, and for the one that is estimated; without an optimizer once.
    ``budget``: also plans within so many bytes, or a share of the peak, for at most ``time_limit``
    seconds. Raises InputError for what cannot be traced, InfeasibleError where no plan fits.
    """
    batch, measure = checked_count("batch", batch, 1), checked_switch("measure", measure)
    if isinstance(subject, Graph):
        found = _core.estimate_graph(subject)
        return found if budget is None else _with_plan(found, subject, budget, time_limit)
    with_torch = importlib.import_module(".pytorch.estimate", __name__)  # torch is optional
    return with_torch.estimate_model(
        subject, example_inputs, optimizer=optimizer, precision=precision, budget=budget,
        measure=measure, batch=batch, length=length, time_limit=time_limit)


def _with_plan(found: Estimate, graph: Graph, budget: int | str, time_limit: float) -> Estimate:
    planned = plan(graph, budget, time_limit=time_limit)
    if planned.plan is None:
        raise InfeasibleError(planned.message)
    return found.with_plan(budget=planned.plan.budget_bytes, strategy=planned.plan.strategy,
                           peak=planned.plan.peak_bytes, overhead=planned.overhead)
