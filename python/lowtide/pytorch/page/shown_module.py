"""What a page shows of a wrapped module, however that runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from torch import fx

from ... import Graph, Plan, format_bytes
from ...page import CompiledPlan, HeldBeside, MeasuredMemory, Origin
from ...source_line import SourceLine
from ..budget.memory import Memory
from ..capture.module_path import module_of
from ..capture.user_line import user_line


@dataclasses.dataclass(frozen=True)
class ShownGraph:
    """``plan`` is valid; ``origins``: by op; ``compiled``: where it is not run by Lowtide."""

    graph: Graph
    plan: Plan
    origins: Sequence[Origin]
    held: HeldBeside
    compiled: CompiledPlan | None = None


@dataclasses.dataclass(frozen=True)
class ShownModule:
    """``figures``: (name, value) as texts, of the whole step; ``lead``: sentences about it."""

    figures: Sequence[tuple[str, str]]
    lead: str
    graphs: Sequence[ShownGraph]


def memory_figures(memory: Memory) -> list[tuple[str, str]]:
    measured = format_bytes(memory.measured_peak) if memory.measured_peak else "no step was run"
    return [("budget", "none" if memory.budget is None else format_bytes(memory.budget)),
            ("planned peak", format_bytes(memory.planned_peak)), ("measured peak", measured),
            ("existed before the step", format_bytes(memory.existing))]


def held_beside(memory: Memory, state_bytes: int, graph: Graph,
                measured: MeasuredMemory | None) -> HeldBeside:
    levels = {"budget": memory.budget, "planned peak": memory.planned_peak,
              "measured peak": memory.measured_peak}
    return HeldBeside(max(0, memory.existing - state_bytes - graph.resident_bytes), state_bytes,
                      {name: size for name, size in levels.items() if size}, measured)


def origin_of(node: fx.Node) -> Origin:
    return Origin(module_of(node)[0], _near(user_line(node)))


def _near(line: SourceLine | None) -> SourceLine | None:
    """A line of a file of this folder, less the folder."""
    return line and line._replace(file=line.file.removeprefix(os.getcwd() + os.sep))
