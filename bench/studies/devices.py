"""Do devices want different plans? Plans for the rooflines of three GPUs, each priced on all."""

import lowtide as package
import plot

from .graphs import zoo_graph
from .reruns import rerun_ops
from .study import Study

DEVICES = ("v100", "a100", "h100")
SHARE = "50%"
SECONDS = 10


def rows(case):
    """A row for each pair of a device planned for and a device run on, of a (model, precision,
    options, devices, seconds)."""
    model, precision, options, devices, seconds = case
    graphs = {device: zoo_graph(model, (*options, "--precision", precision), device)
              for device in devices}
    plans = {device: package.plan(graph, SHARE, "search", time_limit=seconds)
             for device, graph in graphs.items()}
    for planned, found in plans.items():
        for device, graph in graphs.items():
            ours, theirs = rerun_ops(found.plan), rerun_ops(plans[device].plan)
            union = len(ours | theirs)
            extra = overhead(graph, found.plan)
            yield (model, precision, planned, device, extra, bound_on(extra, plans[device]),
                   len(ours & theirs) / union if union else 1.0)


def overhead(graph, plan):
    """Of a plan at the costs of a graph, which may be those of another device."""
    return package.replay(graph, plan).cost / sum(op.cost for op in graph.ops) - 1


def bound_on(extra, found):
    """On the overhead of plans on a device, from the search for it; "" where that is about plans
    in the graph's order, and a plan in another order has less."""
    bound = found.plan.lower_bound / found.keep_all_cost - 1
    return "" if found.plan.model == "fixed-order" and extra < bound else bound


def picture(rows):
    cases = list(dict.fromkeys((row["model"], row["precision"]) for row in rows))
    lines = [plot.text((28, 34), f"Extra time in percent within {SHARE} of the keep-all peak, by "
                       "the device that the step runs on", "strong")]
    for i, case in enumerate(cases):
        mine = [row for row in rows if (row["model"], row["precision"]) == case]
        most = 110 * max(row["overhead"] for row in mine)
        panel = plot.Panel(70 + 290 * (i % 3), 84 + 250 * (i // 3), 220, 160, ", ".join(case),
                           plot.NameAxis(DEVICES), plot.LinearAxis(0, most))
        lines += panel.frame()
        for row in mine:
            j = DEVICES.index(row["planned_for"])
            lines += panel.bar(DEVICES.index(row["run_on"]), (0, 100 * row["overhead"]),
                               plot.COLORS[j + 1], 18 * (j - 1))
    height = 100 + 250 * -(-len(cases) // 3)
    lines += plot.legend((76, height - 24), 160, [(f"plan for {device}", plot.COLORS[j + 1],
                                                   "square") for j, device in enumerate(DEVICES)])
    return plot.document(930, height, "Plans for one GPU on another", lines)


STUDY = Study(
    "devices", ("model", "precision", "planned_for", "run_on", "overhead", "bound",
                "common_reruns"), 2,
    tuple((model, precision, options, DEVICES, SECONDS)
          for model, options in (("resnet50", ("--batch", 32)), ("gpt", ("--batch", 8)),
                                 ("mobilenetv2", ("--batch", 32)))
          for precision in ("f32", "fp16")),
    ("gpt", "f32", ("--batch", 4, "--layers", 2, "--width", 64, "--sequence", 128),
     ("a100", "h100"), 1), rows, picture)
