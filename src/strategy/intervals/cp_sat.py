"""Retention intervals solved by CP-SAT: the child process of the strategy ``intervals``.

Reads a model from standard input as one JSON document and writes JSON documents to standard output,
one a line: every better solution as it is found, with the bound by then, and at last the status. So
whoever ends this process has the best so far. Needs OR-Tools.

The model is that of Bartan et al., Moccasin: Efficient Tensor Rematerialization for Neural
Networks, ICML 2023. Op i may run in stage t at the moment t (t + 1) / 2 + i, and runs first in
stage i. A value is held from a run of its op up to a moment; every run lies in an interval of each
value it reads; what is held at a moment, and the workspace of what runs then, is within the budget.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field

from ortools.sat.python import cp_model


def moment(stage: int, op: int) -> int:
    return stage * (stage + 1) // 2 + op


def stage_of(at: int) -> int:
    return (math.isqrt(8 * at + 1) - 1) // 2


@dataclass
class Run:
    """One possible run of an op: when, and whether it happens."""

    start: object
    present: object
    stops: dict[int, object] = field(default_factory=dict)  # per output: the end of its interval


class Intervals:
    def __init__(self, document: dict) -> None:
        self.ops = document["ops"]
        self.values = document["values"]
        self.most = document["intervals"]
        self.room = document["room"]
        self.horizon = moment(len(self.ops), 0)
        self.model = cp_model.CpModel()
        self.held: list[tuple[object, int]] = []  # intervals and their bytes
        self.runs = [self.runs_of(op) for op in range(len(self.ops))]
        for op in range(len(self.ops)):
            self.order(op)
            for run in self.runs[op]:
                self.hold_outputs(op, run)
        for op in range(len(self.ops)):
            for run in self.runs[op]:
                self.read_inputs(op, run)
        spans, bytes_ = zip(*self.held) if self.held else ((), ())
        self.model.add_cumulative(spans, bytes_, self.room)
        self.unit = self.cost_unit()
        self.model.minimize(sum(int(self.ops[op]["cost"] / self.unit) * run.present
                                for op in range(len(self.ops)) for run in self.runs[op][1:]))
        self.hint(document["start"])

    def cost_unit(self) -> float:
        """Costs are rounded down to whole units, so that a bound in units stays a bound."""
        costs = [op["cost"] for op in self.ops]
        if all(cost == int(cost) for cost in costs):
            return 1.0
        return sum(costs) / 1e7

    def runs_of(self, op: int) -> list[Run]:
        first = Run(self.model.new_constant(moment(op, op)), self.model.new_constant(1))
        moments = [moment(t, op) for t in range(op + 1, self.ops[op]["deadline"] + 1)]
        again = min(self.most - 1, len(moments))
        domain = cp_model.Domain.from_values(moments)
        return [first] + [
            Run(self.model.new_int_var_from_domain(domain, f"start_{op}_{k}"),
                self.model.new_bool_var(f"present_{op}_{k}"))
            for k in range(again)]

    def order(self, op: int) -> None:
        for before, after in zip(self.runs[op], self.runs[op][1:]):
            self.model.add_implication(after.present, before.present)
            self.model.add(before.start < after.start).only_enforce_if(after.present)

    def hold_outputs(self, op: int, run: Run) -> None:
        for value in self.ops[op]["outputs"]:
            stop = self.model.new_int_var(0, self.horizon, f"stop_{value}")
            self.model.add(stop > run.start).only_enforce_if(run.present)
            run.stops[value] = stop
            self.hold(run, stop, self.values[value]["bytes"])
        self.hold(run, run.start + 1, self.ops[op]["workspace"])

    def hold(self, run: Run, stop: object, bytes_: int) -> None:
        if bytes_ == 0:
            return
        size = self.model.new_int_var(0, self.horizon, "size")
        span = self.model.new_optional_interval_var(run.start, size, stop, run.present, "span")
        self.held.append((span, bytes_))

    def read_inputs(self, op: int, run: Run) -> None:
        """An input that the op may write over can end where the output begins."""
        overlaid = set(self.ops[op]["overlaid"])
        for value in self.ops[op]["inputs"]:
            reads = []
            for made in self.runs[self.values[value]["producer"]]:
                read = self.model.new_bool_var("read")
                self.model.add_implication(read, made.present)
                self.model.add(made.start < run.start).only_enforce_if(read)
                last = made.stops[value] if value in overlaid else made.stops[value] - 1
                self.model.add(run.start <= last).only_enforce_if(read)
                reads.append(read)
            self.model.add_bool_or(reads).only_enforce_if(run.present)

    def hint(self, events: list[list[int]]) -> None:
        stages: dict[int, list[int]] = {}
        for stage, op in sorted(events):
            stages.setdefault(op, []).append(stage)
        for op, runs in enumerate(self.runs):
            for k, run in enumerate(runs[1:]):
                is_there = k < len(stages.get(op, []))
                self.model.add_hint(run.present, is_there)
                if is_there:
                    self.model.add_hint(run.start, moment(stages[op][k], op))


class Printer(cp_model.CpSolverSolutionCallback):
    def __init__(self, intervals: Intervals) -> None:
        super().__init__()
        self.intervals = intervals

    def on_solution_callback(self) -> None:
        events = [[stage_of(self.value(run.start)), op]
                  for op, runs in enumerate(self.intervals.runs) for run in runs[1:]
                  if self.value(run.present)]
        write({"events": events, "bound": self.best_objective_bound * self.intervals.unit})


def write(document: dict) -> None:
    print(json.dumps(document), flush=True)


def main() -> None:
    document = json.load(sys.stdin)
    intervals = Intervals(document)
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = document["seed"]
    solver.parameters.num_workers = document["threads"]
    if document["seconds"] > 0:
        solver.parameters.max_time_in_seconds = document["seconds"]
    status = solver.solve(intervals.model, Printer(intervals))
    bound = solver.best_objective_bound * intervals.unit
    write({"status": solver.status_name(status).lower(), "bound": bound})


if __name__ == "__main__":
    main()
