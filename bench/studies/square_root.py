"""Checkpoints at sqrt(n) beside the best plans within the same bytes, and the bound of all."""

import lowtide as package
import plot

from .graphs import zoo_graph
from .study import Study

SECONDS = 10
WAYS = {"sqrt_overhead": ("sqrt(n)", 0, "square"), "overhead": ("search", 1, "circle"),
        "bound": ("bound", 1, "dashes")}


def chain(layers):
    """A chain of equal layers, as a case."""
    return ("mlp", layers, ("--layers", layers, "--width", 64, "--image", 8, "--batch", 4096,
                            "--momentum", 0), SECONDS)


def rows(case):
    """A row of a (model, layers, options, seconds)."""
    model, layers, options, seconds = case
    graph = zoo_graph(model, options)
    rule = package.plan(graph, 1, "chen-sqrt")
    budget = rule.smallest_budget
    best = package.plan(graph, budget, "search", time_limit=seconds)
    yield (model, layers, rule.keep_all_peak_bytes, budget, budget / rule.keep_all_peak_bytes,
           rule.smallest_plan.cost / rule.keep_all_cost - 1, best.overhead,
           best.plan.lower_bound / best.keep_all_cost - 1, best.outcome == "optimal")


def picture(rows):
    chains = sorted((row for row in rows if row["model"] == "mlp"), key=lambda row: row["layers"])
    networks = [row for row in rows if row["model"] != "mlp"]
    most = 1.1 * max(100 * row["sqrt_overhead"] for row in rows)
    lines = [plot.text((28, 34), "Extra time in percent, within the bytes that checkpoints at "
                       "sqrt(n) need", "strong")]
    for i, (title, mine, names) in enumerate((
            ("chains of equal layers", chains, [f"{row['layers']:.0f}" for row in chains]),
            ("networks", networks, [row["model"] for row in networks]))):
        panel = plot.Panel(70 + 430 * i, 80, 360, 250, title, plot.NameAxis(names),
                           plot.LinearAxis(0, most))
        lines += panel.frame()
        for figure, (_, color, shape) in WAYS.items():
            lines += panel.marks([(j, 100 * max(0, row[figure])) for j, row in enumerate(mine)],
                                 plot.COLORS[color], shape)
    lines += plot.legend((76, 378), 120, [(name, plot.COLORS[color], shape)
                                          for name, color, shape in WAYS.values()])
    return plot.document(890, 400, "Checkpoints at sqrt(n) and the best plans", lines)


STUDY = Study(
    "square_root", ("model", "layers", "keep_all_bytes", "budget_bytes", "share", "sqrt_overhead",
                    "overhead", "bound", "proved"), 2,
    (*(chain(n) for n in (4, 8, 16, 32, 64, 128)),
     ("resnet18", 18, ("--batch", 32), SECONDS), ("resnet50", 50, ("--batch", 32), SECONDS),
     ("vgg16", 16, ("--batch", 32), SECONDS), ("gpt", 12, ("--batch", 4), SECONDS),
     ("mobilenetv2", 53, ("--batch", 32), SECONDS)),
    (*chain(8)[:3], 1), rows, picture)
