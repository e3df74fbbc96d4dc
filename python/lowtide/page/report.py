"""All that a page shows of a plan, as numbers and texts."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from .. import Graph, InputError, Plan, _core, format_bytes, keep_all, replay, verify
from .arena import arena
from .compiled import CompiledPlan
from .decisions import decisions
from .lives import Content, Life, lives, name_of, resident_bytes
from .measured import MeasuredMemory, of_trace
from .memory import memory_over_time, shown_actions
from .origins import Origin, layer_groups, origins_of_names
from .other_plans import KeptAll, OtherPlans, Point, least_overhead, other_plans, proved_for, titles
from .schedule import schedule

_MOST_HELD = 15
#: By cost unit: what times are shown in, and how many of the unit that is.
_UNITS = {"us": ("ms", 1e3), "ns": ("ms", 1e6), "flops": ("Gflop", 1e9)}
_NUMBERS = {content: number for number, content in enumerate(Content)}


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """A document for JSON: docs/how-to/see-a-plan.md lists its keys."""

    name: str
    document: dict


@dataclasses.dataclass(frozen=True)
class Report:
    """``figures``: (name, value) as texts, of the whole step; ``lead``: sentences about it;
    ``advice``: sentences about what would help, of the model and not of one graph."""

    title: str
    figures: Sequence[tuple[str, str]]
    lead: str
    graphs: Sequence[GraphReport]
    advice: Sequence[str] = ()

    def to_document(self) -> dict:
        return {"title": self.title, "figures": [list(pair) for pair in self.figures],
                "lead": self.lead, "advice": list(self.advice),
                "graphs": [graph.document for graph in self.graphs]}


@dataclasses.dataclass(frozen=True)
class HeldBeside:
    """What a step holds beside a graph, and lines that a picture of its memory has: by name,
    bytes."""

    beside: int = 0
    state: int = 0
    levels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    measured: MeasuredMemory | None = None


def report_of_plan(graph: Graph, plan: Plan, run: str | os.PathLike[str] | None,
                   time_limit: float) -> Report:
    """``run``: the trace of a step by the plan. Raises InputError for a plan that breaks a rule."""
    require_valid(graph, plan)
    held = HeldBeside(measured=None if run is None else of_trace(run, plan.graph or graph.name))
    shown = report_of_graph(graph, plan, held=held, time_limit=time_limit)
    return Report(graph.name, (), f"Times are {_core.cost_origin(graph)}.", [shown])


def require_valid(graph: Graph, plan: Plan) -> None:
    """Raises InputError for a plan that breaks a rule."""
    broken = verify(graph, plan)
    if broken is not None:
        raise InputError(f"the plan breaks the rule {broken.rule}: {broken.message}. Give the "
                         f"graph that it was made for, {plan.graph!r} by its name.")


def report_of_graph(graph: Graph, plan: Plan, origins: Sequence[Origin] | None = None,
                    held: HeldBeside | None = None, time_limit: float = 0.0,
                    compiled: CompiledPlan | None = None) -> GraphReport:
    """``plan`` is valid. ``origins``: by op; by the names of ops where they are None.
    ``time_limit``: seconds for plans within other budgets; 0: none. ``compiled``: of a plan that is
    not run by Lowtide."""
    held = held or HeldBeside()
    origins = origins if origins is not None else origins_of_names(graph.ops)
    known = _Known(graph, plan, origins, compiled)
    others = known.other_plans(time_limit)
    document = {
        "name": graph.name, "unit": known.unit, "contents": [content.value for content in Content],
        "figures": known.figures(), "lead": known.lead(),
        "memory": known.memory(held), "arena": known.arena(),
        "addresses": compiled.addresses if compiled else "", "schedule": known.schedule(),
        "frontier": known.frontier(others), "decisions": known.decisions(),
        "held": known.held(), "advice": others.advice,
    }
    return GraphReport(graph.name, document)


class _Known:
    """What several parts of a page are made of."""

    def __init__(self, graph: Graph, plan: Plan, origins: Sequence[Origin],
                 compiled: CompiledPlan | None):
        self._graph, self._plan, self._compiled = graph, plan, compiled
        self._explained = explained = _core.explanation(graph, plan)
        self._origins = origins
        self._again = compiled.again if compiled else frozenset()
        self._whole = _kept_all(graph, explained, compiled)
        self._ops, self._tensors = graph.ops, graph.tensors
        self.unit, self._per_unit = _UNITS[graph.cost_unit]
        self._lives = lives(graph, plan, self._again)
        self._replayed = replay(graph, plan)
        self._moments = _core.timeline(graph, plan)
        self._reached = [self._time(reached) for reached, _, _ in self._moments]
        self._end = self._time(plan.cost)
        forward = [origin.layer for origin, op in zip(origins, self._ops) if op.phase == "forward"]
        self._groups = layer_groups(forward)
        # Of plans of the graph that this one is compared with alone.
        self._bound = least_overhead(plan, self._whole) if self._whole.graph is graph else None
        within = plan.budget_bytes or explained.peak_bytes
        overhead = plan.cost / self._whole.cost - 1 if self._whole.cost else 0.0
        self._point = Point(within, overhead, self._bound, plan.model, plan.strategy)

    def _time(self, cost: float) -> float:
        return cost / self._per_unit

    def other_plans(self, time_limit: float) -> OtherPlans:
        return other_plans(self._whole, self._point, self._plan.slower_bytes > 0, time_limit)

    def figures(self) -> list[tuple[str, str]]:
        plan = self._plan
        arena = "none" if plan.arena_bytes is None else format_bytes(plan.arena_bytes)
        found = [("budget", "none" if plan.budget_bytes is None
                  else format_bytes(plan.budget_bytes)),
                 ("peak of live bytes", format_bytes(self._explained.peak_bytes)),
                 *([] if self._compiled else [("arena", arena)]),
                 ("peak of keep-all", format_bytes(self._whole.peak_bytes)),
                 ("time above keep-all", f"{self._point.overhead:.2%}")]
        if self._bound is not None:
            found.append(("no plan is below", f"{self._bound:.2%}"))
        return found

    def lead(self) -> str:
        explained = self._explained
        share = explained.peak_bytes / (self._whole.peak_bytes or 1)
        op = explained.peak_op
        where = "" if op is None else f"; it is reached in {self._place(op)}"
        again = (sum(op.cost > 0 for op in explained.again)
                 + sum(self._ops[op].cost > 0 for op in self._again))
        moved = len(explained.moved)
        does = [f"runs {again} ops again" if again else "",
                f"moves {moved} values" if moved else ""]
        what = " and ".join(filter(None, does)) or "keeps every value"
        plan = self._compiled.split if self._compiled else f"The plan by {self._plan.strategy}"
        notes = f" {self._compiled.notes}" if self._compiled and self._compiled.notes else ""
        return (f"{plan} {what}. Its peak is {format_bytes(explained.peak_bytes)}, {share:.1%} of "
                f"keep-all's{where}.{self._proved()}{notes}")

    def _proved(self) -> str:
        if not self._bound:
            return ""
        plans = proved_for([self._point])
        return (f" Within its budget, no plan {plans} costs less than {self._bound:.2%} more than "
                f"keep-all.")

    def _place(self, number: int) -> str:
        where, _, _ = self._origins[number].line.partition(", in ")
        return f"{self._ops[number].name} ({where})" if where else self._ops[number].name

    def group_of(self, life: Life) -> str:
        return self._groups.get(self._origins[life.op].layer, "")

    def memory(self, held: HeldBeside) -> dict:
        residents = resident_bytes(self._explained)
        residents[Content.BESIDE] = held.beside
        residents[Content.STATE] += held.state
        total = self._replayed.memory
        actions = shown_actions(total, self._reached) if total else []
        found = memory_over_time(self._lives, actions, self.group_of, residents)
        measured = held.measured and held.measured.shown()
        return {
            "actions": actions, "times": [self._reached[at] for at in actions], "end": self._end,
            "of": len(total),
            "bands": [{"content": _NUMBERS[band.content], "group": band.group, "bytes": sizes}
                      for band, sizes in found.bytes.items()],
            "levels": dict(held.levels) or self._levels(),
            "measured": None if measured is None else {
                "times": [1e3 * seconds for seconds in measured.seconds],
                "bytes": list(measured.bytes), "how": measured.how},
        }

    def _levels(self) -> dict[str, int]:
        plan = self._plan
        found = {"budget": plan.budget_bytes, "arena": plan.arena_bytes,
                 "peak of keep-all": self._whole.peak_bytes}
        return {name: size for name, size in found.items() if size is not None}

    def arena(self) -> dict | None:
        plan = self._plan
        if plan.arena_bytes is None or not self._end:
            return None
        residents = self._explained.resident_bytes
        reached = [*self._reached, self._end]
        found = arena(self._lives, reached, residents, plan.arena_bytes)
        columns: dict[str, list] = {key: [] for key in
                                    ("begin", "end", "offset", "bytes", "content", "name", "layer")}
        offset = 0
        for content, size in resident_bytes(self._explained).items():
            if size:
                row = 0.0, self._end, offset, size, _NUMBERS[content], content.value, ""
                offset += size
                _add(columns, row)
        for life in found.boxes:
            row = (reached[life.begin], reached[life.end], residents + (life.offset or 0),
                   life.bytes, _NUMBERS[life.content], name_of(life, self._ops, self._tensors),
                   self._layer(life))
            _add(columns, row)
        return {"boxes": columns, "raster": found.raster and found.raster._asdict(),
                "end": self._end, "arena_bytes": plan.arena_bytes,
                "budget_bytes": plan.budget_bytes}

    def _layer(self, life: Life) -> str:
        return "" if life.op is None else self._origins[life.op].layer

    def schedule(self) -> dict:
        lanes = schedule(self._graph, self._plan, self._moments, self._again)
        return {"end": self._end, "lanes": [
            {"lane": lane, "begin": [self._time(bar.begin) for bar in bars],
             "end": [self._time(bar.end) for bar in bars], "name": [bar.name for bar in bars],
             "count": [bar.number for bar in bars], "busy": [self._time(bar.busy) for bar in bars]}
            for lane, bars in lanes.items()]}

    def frontier(self, others: OtherPlans) -> dict:
        return {
            "curve": [dataclasses.asdict(point) for point in others.curve],
            "proved_for": proved_for(others.curve),
            "peers": [dataclasses.asdict(point) for point in others.peers],
            "floor_bytes": others.floor_bytes, "titles": titles(),
            "keep_all_peak_bytes": self._whole.peak_bytes,
            "plan": dataclasses.asdict(self._point), "moves": self._plan.slower_bytes > 0,
        }

    def decisions(self) -> dict:
        found = decisions(self._graph, self._plan, self._explained, self._lives, self._origins,
                          self._whole.cost, self._compiled)
        return {"rows": [row._asdict() for row in found.rows],
                "left_out": {what: {"rows": rows, "bytes": size}
                             for what, (rows, size) in found.left_out.items()}}

    def held(self) -> dict:
        """What is in memory at the peak, the largest first."""
        explained = self._explained
        maker = {tensor: number for number, op in enumerate(self._ops) for tensor in op.outputs}
        rows = [self._row_of_residents(what, size) for what, size in explained.residents]
        if explained.workspace_bytes:
            rows.append(self._row("workspace", explained.workspace_bytes, explained.peak_op))
        rows += [self._row(self._tensors[held.tensor].name, held.bytes, maker.get(held.tensor))
                 for held in explained.held[:_MOST_HELD]]
        rest = explained.held[_MOST_HELD:]
        return {"rows": sorted(rows, key=lambda row: -row["bytes"]),
                "rest": {"rows": len(rest), "bytes": sum(held.bytes for held in rest)},
                "peak_bytes": explained.peak_bytes}

    @staticmethod
    def _row_of_residents(what: str, size: int) -> dict:
        return {"name": what, "bytes": size, "made_by": "held throughout", "layer": "", "line": ""}

    def _row(self, name: str, size: int, op: int | None) -> dict:
        if op is None:
            return {"name": name, "bytes": size, "made_by": "slower memory", "layer": "",
                    "line": ""}
        origin = self._origins[op]
        return {"name": name, "bytes": size, "layer": origin.layer, "line": origin.line,
                "made_by": f"{self._ops[op].name} ({self._ops[op].phase})"}


def _kept_all(graph: Graph, explained: _core.Explanation,
              compiled: CompiledPlan | None) -> KeptAll:
    if compiled is None or compiled.whole is None:
        return KeptAll(graph, explained.keep_all_cost, explained.keep_all_peak_bytes)
    kept = replay(compiled.whole, keep_all(compiled.whole))
    return KeptAll(compiled.whole, kept.cost, kept.peak_bytes)


def _add(columns: dict[str, list], row: tuple) -> None:
    for values, value in zip(columns.values(), row):
        values.append(value)
