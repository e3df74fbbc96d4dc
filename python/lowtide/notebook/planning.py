"""What notebooks show of the compiled part's objects."""

from __future__ import annotations

from .. import _core
from .._core import format_bytes
from .html import facts, sparkline, table
from .terminal import as_printed

#: The names of the methods that notebooks call, and IPython in a terminal.
_METHOD, _IN_TERMINALS = "_repr_html_", "_repr_pretty_"


def show_core_classes() -> None:
    """Notebooks show plans, the planner's answers, frontiers, replays and estimates from now on."""
    shown = {_core.Plan: plan_html, _core.Planned: planned_html, _core.Frontier: frontier_html,
             _core.Replay: replay_html, _core.Estimate: estimate_html}
    for kind, method in shown.items():
        setattr(kind, _METHOD, method)
    setattr(_core.Estimate, _IN_TERMINALS, as_printed)


def plan_html(plan: _core.Plan) -> str:
    runs = [action[1] for action in plan.actions if action[0] == "run"]
    again = len(runs) - len(set(runs))
    moves = sum(action[0] == "prefetch" for action in plan.actions)
    shown = {"plan of": plan.graph, "strategy": plan.strategy,
             "budget": _size(plan.budget_bytes), "peak of live bytes": _size(plan.peak_bytes),
             "arena": _size(plan.arena_bytes), "runs": f"{len(runs)}, of which {again} again"}
    if moves:
        shown["moved back from slower memory"] = f"{moves} times"
    return facts(shown)


def planned_html(planned: _core.Planned) -> str:
    shown = {"outcome": planned.outcome, "budget": _size(planned.budget_bytes),
             "peak of keep-all": _size(planned.keep_all_peak_bytes)}
    if planned.plan is not None:
        shown["peak of live bytes"] = _size(planned.plan.peak_bytes)
        shown["strategy"] = planned.plan.strategy
    shown |= {name: f"{share:.2%}" for name, share in
              (("time above keep-all", planned.overhead),
               ("no plan is below", planned.least_overhead)) if share is not None}
    if planned.smallest_budget is not None:
        shown["smallest budget found"] = _size(planned.smallest_budget)
    return facts({**shown, "": planned.message})


def frontier_html(frontier: _core.Frontier) -> str:
    """The budgets, the largest first, and what each costs."""
    reached = [point for point in frontier.points if point.overhead is not None]
    rows = [[_size(point.budget_bytes),
             "no plan" if point.overhead is None else f"{point.overhead:.2%}",
             "" if point.least_overhead is None else f"{point.least_overhead:.2%}"]
            for point in frontier.points]
    costs = table(["budget", "time above keep-all", "no plan is below"], rows)
    if not reached:
        return f"<div>{costs}</div>"
    curve = sparkline([point.overhead for point in reached],
                      f"time above keep-all, from {_size(reached[0].budget_bytes)} to "
                      f"{_size(reached[-1].budget_bytes)}")
    return f"<div>{costs}{curve}</div>"


def replay_html(replayed: _core.Replay) -> str:
    peak = _size(replayed.peak_bytes)
    curve = sparkline(replayed.memory, f"bytes in use by action, at most {peak}")
    return facts({"peak of live bytes": peak, "reached in action": str(replayed.peak_action)},
                 {"bytes in use by action": curve})


def estimate_html(found: _core.Estimate) -> str:
    """What a step holds, in all and at its peak."""
    parts = dict.fromkeys([*found.whole, *found.at_peak])
    rows = [[part, _size(found.whole.get(part)), _size(found.at_peak.get(part))] for part in parts]
    rows.append(["peak", "", _size(found.peak_bytes)])
    if found.planned_peak_bytes is not None:
        rows.append([f"peak of a plan, {found.planned_overhead:.2%} slower", "",
                     _size(found.planned_peak_bytes)])
    return table([found.name, "in full", "at the peak"], rows)


def _size(size: int | None) -> str:
    return "" if size is None else format_bytes(size)
