"""How much less memory a step needs for a tenth more time: the least budget, by bisection."""

import lowtide as package
import plot

from .frontiers import CASES
from .graphs import zoo_graph
from .study import Study

MOST = 0.1
STEPS, SECONDS = 5, 4
FIGURES = {"factor": "of the whole peak", "factor_above_residents": "of what is not resident"}


def rows(case):
    """The row of a (model, options, steps, seconds)."""
    model, options, steps, seconds = case
    graph = zoo_graph(model, options)
    found = package.plan(graph, "100%", "keep-all")
    keep_all, residents = found.keep_all_peak_bytes, graph.resident_bytes
    low, best = package.structural_floor_bytes(graph), found
    for _ in range(steps):
        tried = package.plan(graph, (low + best.budget_bytes) // 2, time_limit=seconds)
        if tried.plan is not None and tried.overhead < MOST:
            best = tried
        else:
            low = tried.budget_bytes
    yield (model, keep_all, residents, best.budget_bytes, best.overhead,
           keep_all / best.budget_bytes, (keep_all - residents) / (best.budget_bytes - residents))


def picture(rows):
    panel = plot.Panel(130, 70, 560, 24 * len(rows), "keep-all peak over the least budget with "
                       "less than 10% extra time", plot.LinearAxis(1, 4),
                       plot.NameAxis([row["model"] for row in rows][::-1]))
    lines = list(panel.frame())
    for figure, color in zip(FIGURES, plot.COLORS[1:]):
        points = [(row[figure], len(rows) - 1 - i) for i, row in enumerate(rows)]
        lines += panel.marks(points, color)
    bottom = 24 * len(rows) + 70
    lines += plot.legend((136, bottom + 46), 220, [(name, color, "circle") for name, color
                                                   in zip(FIGURES.values(), plot.COLORS[1:])])
    return plot.document(760, bottom + 70, "How much less memory a tenth more time buys", lines)


STUDY = Study(
    "ten_percent", ("model", "keep_all_bytes", "resident_bytes", "budget_bytes", "overhead",
                    *FIGURES), 1,
    tuple((model, options, STEPS, SECONDS) for model, options in CASES.items()
          if not model.startswith("gpt3")),
    ("mlp", ("--batch", 512, "--image", 8, "--width", 32, "--layers", 6), 2, 1), rows, picture)
