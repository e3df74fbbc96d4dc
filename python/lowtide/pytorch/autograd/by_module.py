"""What a plan holds and runs again, by the modules of the user's model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from torch import fx

from ... import Graph, Plan, format_bytes, replay
from ..capture.module_path import module_of
from ..common.table import aligned

#: Of ops that lie in no module below the model, such as a loss in its forward.
_OWN = "(its own forward)"


def by_module(graph: Graph, nodes: Sequence[fx.Node | None], plan: Plan, most: int) -> str:
    """A table of at most ``most`` modules that hold most at the peak or run again; "" where the
    trace knows no modules. ``nodes``: by op, what it was traced as."""
    if len(nodes) != len(graph.ops):
        return ""
    modules = [_named(*module_of(node)) for node in nodes]
    if not any(modules):
        return ""
    held, again = _held_bytes(graph, plan, modules), _rerun_costs(graph, plan, modules)
    names = sorted({*held, *again}, key=lambda name: (-held[name], -again[name], name))
    whole = sum(op.cost for op in graph.ops) or 1.0
    rows = [(name, format_bytes(held[name]) if held[name] else "",
             f"{again[name] / whole:.2%}" if again[name] else "") for name in names[:most]]
    if len(names) > most:
        others = names[most:]
        rows.append((f"and {len(others)} more", format_bytes(sum(held[name] for name in others)),
                     f"{sum(again[name] for name in others) / whole:.2%}"))
    return aligned([("module", "held at the peak", "time to run again"), *rows])


def _named(path: str, kind: str) -> str:
    return f"{path} ({kind})" if path else ""


def _held_bytes(graph: Graph, plan: Plan, modules: Sequence[str]) -> Counter[str]:
    """Of values; what lasts, as parameters do, is of no module's making."""
    maker = {index: number for number, op in enumerate(graph.ops) for index in op.outputs}
    held: Counter[str] = Counter()
    for index in replay(graph, plan).live_at_peak:
        if graph.tensors[index].kind != "resident" and index in maker:
            held[modules[maker[index]] or _OWN] += graph.tensors[index].bytes
    return held


def _rerun_costs(graph: Graph, plan: Plan, modules: Sequence[str]) -> defaultdict[str, float]:
    runs = Counter(action[1] for action in plan.actions if action[0] == "run")
    again: defaultdict[str, float] = defaultdict(float)
    for number, count in runs.items():
        if count > 1:
            again[modules[number] or _OWN] += (count - 1) * graph.ops[number].cost
    return again
