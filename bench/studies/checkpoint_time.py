"""The time and memory of checkpoints at sqrt(n), predicted and measured by training.

Costs are measured on this machine. Keep-all and the plan take turns in processes of their own, on
one thread. A step's time is the processor time that more steps take more, the least of all turns:
other programs disturb it less than the time of the clock.
"""

import math
import pathlib
import resource
import tempfile

import lowtide as package
import plot
from lowtide_command import lowtide

from .study import Study

STEPS = 4  # that a longer run has more
ROUNDS = 3
COLUMNS = ("model", "size", "strategy", "keep_all_bytes", "measured_keep_all_bytes", "budget_bytes",
           "measured_bytes", "predicted", "measured", "bit_identical")


def measured_graph(model, options):
    """(the graph with measured costs, what training it keep-all says)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        result = _train(model, options, "--graph-out", path)
        return package.Graph.load(path), result


def rows(case):
    """A row of a (model, size, strategy, options, rounds)."""
    model, size, strategy, options, times = case
    graph, kept = measured_graph(model, options)
    chosen = {"segments": round(math.sqrt(size))} if strategy == "segments" else {}
    found = package.plan(graph, 1, strategy, options=chosen)
    budget = int(found.smallest_budget * 1.001)  # the command keeps room for random states
    flags = [word for name, value in chosen.items() for word in ("-O", f"{name}={value}")]
    within = ("--budget", budget, "--strategy", strategy, *flags)
    checked = _train(model, options, *within, "--check")
    rounds = [(_seconds(model, options), _seconds(model, options, *within))
              for _ in range(times)]
    kept_seconds, seconds = map(min, zip(*rounds))
    yield (model, size, strategy, found.keep_all_peak_bytes, kept["measured_peak_bytes"], budget,
           checked["measured_peak_bytes"], found.smallest_plan.cost / found.keep_all_cost - 1,
           seconds / kept_seconds - 1, checked["bit_identical"])


def _train(model, options, *more, steps=1):
    return lowtide("train", "--model", model, *options, "--steps", steps, "--lr", "0.001",
                   "--threads", 1, *more)


def _seconds(model, options, *more):
    """Of the processor, for a step."""
    used = []
    for steps in (1, 1 + STEPS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _train(model, options, *more, steps=steps)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (used[1] - used[0]) / STEPS


def picture(rows):
    names = [f"{row['model']} {row['size']:.0f}" if row["model"] == "lstm" else row["model"]
             for row in rows]
    most = max(max(row["predicted"], row["measured"]) for row in rows)
    least = min(0, *(row["measured"] for row in rows))
    memory = plot.Panel(70, 60, 330, 240, "peak measured, percent of keep-all's",
                        plot.NameAxis(names), plot.LinearAxis(0, 100))
    time = plot.Panel(480, 60, 330, 240, "extra time in percent", plot.NameAxis(names),
                      plot.LinearAxis(110 * least, 110 * most))
    lines = [*memory.frame(), *time.frame()]
    for i, row in enumerate(rows):
        share = 100 * row["measured_bytes"] / row["measured_keep_all_bytes"]
        lines += memory.bar(i, (0, share), plot.COLORS[1])
        for figure, color, shift in (("predicted", plot.COLORS[0], -10),
                                     ("measured", plot.COLORS[1], 10)):
            low, high = sorted((0, 100 * row[figure]))
            lines += time.bar(i, (low, high), color, shift)
    lines += plot.legend((486, 350), 120, [("predicted", plot.COLORS[0], "square"),
                                           ("measured", plot.COLORS[1], "square")])
    return plot.document(860, 375, "Memory and time of checkpoints at sqrt(n), measured", lines)


STUDY = Study(
    "checkpoint_time", COLUMNS, 2,
    (("resnet18", 18, "chen-sqrt", ("--batch", 8, "--image", 96), ROUNDS),
     ("resnet50", 50, "chen-sqrt", ("--batch", 8, "--image", 96), ROUNDS),
     ("lstm", 64, "segments", ("--sequence", 64, "--width", 256), ROUNDS)),
    ("mlp", 6, "chen-sqrt", ("--batch", 256, "--image", 8, "--width", 32, "--layers", 6), 1),
    rows, picture)
