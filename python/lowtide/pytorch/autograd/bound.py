"""The bound of a plan, in words: how much less others could cost, and which ones it is of."""

from __future__ import annotations

from ... import Plan
from ..budget.may_move import MayMove
from ..budget.settings import AUTO, Settings
from .planned_graph import PlannedGraph

#: By the model of a bound, as the plan format has it: of which plans it is.
_ORDERS = {"any-order": "in any order", "fixed-order": "the first runs in the order of the ops"}

_MOVES = {MayMove.NOTHING: "", MayMove.VALUES: " and move values",
          MayMove.PARAMETERS: " and move values and parameters"}


def describe_bound(graph: PlannedGraph, plan: Plan, settings: Settings,
                   may_move: MayMove) -> str:
    """Which choices it covers and which it does not, of those that the settings allow; "" where
    the step as it is keeps all values, or nothing is proved. ``may_move``: what could move in the
    plans among which this one was searched for."""
    whole = graph.region.priced.keep_all_cost
    saves = plan.cost > whole or plan.slower_bytes or graph.region.stashes
    if plan.lower_bound is None or not whole or not saves:
        return ""
    order = _ORDERS.get(plan.model, f"by the rules of {plan.model}")
    more = plan.lower_bound / whole - 1
    covered = (f"No plan of this graph costs less than {max(0.0, more):.2%} more than keep-all, of "
               f"those within the budget that run ops again{_MOVES[may_move]}, {order}.")
    others = _not_covered(graph, settings, may_move)
    return f"{covered} That says nothing of {_joined(others)}." if others else covered


def _not_covered(graph: PlannedGraph, settings: Settings, may_move: MayMove) -> list[str]:
    others = []
    if may_move < settings.may_move:
        others.append("plans that move more")
    if graph.stashes.found:
        others.append("other values held in fewer bits" if graph.region.stashes
                      else "values held in fewer bits")
    if settings.slices == AUTO:
        others.append("other numbers of slices")
    return others


def _joined(parts: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
