"""The cost of every budget, for each model of the zoo, and the bound that no plan is below."""

import lowtide as package
import plot

from .graphs import zoo_graph
from .study import Study

# Sizes small enough for a laptop; the shape of each network stays.
CASES = {
    "mlp": ("--batch", 4096, "--layers", 12), "vgg16": ("--batch", 32), "vgg19": ("--batch", 32),
    "resnet18": ("--batch", 32), "resnet50": ("--batch", 32), "resnet152": ("--batch", 32),
    "mobilenet": ("--batch", 32), "mobilenetv2": ("--batch", 32), "densenet121": ("--batch", 32),
    "inceptionv3": ("--batch", 32), "unet": ("--batch", 8), "fcn8": ("--batch", 8),
    "segnet": ("--batch", 8), "lstm": ("--batch", 128, "--sequence", 64),
    "gpt": ("--batch", 8), "vit-small": ("--batch", 32), "vit-base": ("--batch", 32),
    "gpt3-small": (), "gpt3-medium": (), "gpt3-large": (), "gpt3-xl": (), "gpt3-2.7b": (),
    "gpt3-6.7b": (), "gpt3-13b": (), "gpt3-175b": (),
}
EFFORT = (12, 12)  # budgets, and seconds for all of them together
EFFORT_OF_LARGE = (6, 60)
LARGE = ("gpt3", "resnet152", "densenet121", "lstm")  # graphs of many ops
ACROSS, MOST = 5, 0.6  # panels in a row; the highest overhead drawn


def rows(case):
    """A row for each budget of a (model, options, points, seconds)."""
    model, options, points, seconds = case
    graph = zoo_graph(model, options)
    found = package.frontier(graph, points, time_limit=seconds)
    for i, point in enumerate(found.points):
        if point.plan is None:
            continue
        keep_all, residents = point.keep_all_peak_bytes, graph.resident_bytes
        yield (model, i, keep_all, residents, point.budget_bytes, point.budget_bytes / keep_all,
               (point.budget_bytes - residents) / (keep_all - residents), point.overhead,
               _bound(point))


def _bound(point):
    lower = point.plan.lower_bound
    return "" if lower is None else lower / point.keep_all_cost - 1


def picture(rows):
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = [plot.text((28, 36), "Extra time in percent, over the budget in percent of the "
                       "keep-all peak", "strong")]
    for i, model in enumerate(models):
        panel = plot.Panel(58 + 220 * (i % ACROSS), 86 + 220 * (i // ACROSS), 170, 140, model,
                           plot.LinearAxis(0, 100), plot.LinearAxis(0, 100 * MOST))
        mine = [row for row in rows if row["model"] == model]
        lines += panel.frame()
        lines += panel.curve(_points(mine, "overhead"), plot.COLORS[1])
        lines += panel.marks(_points(mine, "overhead"), plot.COLORS[1])
        lines += panel.curve(_points(mine, "bound"), plot.COLORS[1], "3 4")
    height = 90 + 220 * -(-len(models) // ACROSS)
    lines += plot.legend((60, height - 20), 220, [("plan", plot.COLORS[1], "circle"),
                                                  ("bound", plot.COLORS[1], "dashes")])
    return plot.document(1130, height, "The cost of every budget, for each model", lines)


def _points(rows, column):
    """What lies above the panel is left out."""
    return [(100 * row["share"], 100 * max(0, row[column])) for row in rows
            if row[column] != "" and row[column] <= MOST]


STUDY = Study(
    "frontiers", ("model", "point", "keep_all_bytes", "resident_bytes", "budget_bytes", "share",
                  "share_above_residents", "overhead", "bound"), 1,
    tuple((model, options, *(EFFORT_OF_LARGE if model.startswith(LARGE) else EFFORT))
          for model, options in CASES.items()),
    ("mlp", ("--batch", 512, "--image", 8, "--width", 32, "--layers", 6), 4, 1), rows, picture)
