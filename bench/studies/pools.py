"""What dynamic pools take for the requests of a step, beside addresses that are planned."""

import pathlib
import tempfile

import plot
from lowtide_command import lowtide

from .study import Study

STATIC = "planned"
PLANS = {"keep-all": (), "70%": ("--budget", "70%")}
SECONDS = 5
MOST = 100  # percent: what wastes more is drawn at the edge


def rows(case):
    """For each plan of a (model, options, seconds): a row for planned addresses and each pool."""
    model, options, seconds = case
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        lowtide("graph", "--model", model, *options, "-o", path)
        for plan, budget in PLANS.items():
            found = lowtide("layout", path, "--compare", "--time-limit", seconds,
                            *budget)["comparison"]
            for pool in ({"name": STATIC, **found}, *found["pools"]):
                yield (model, plan, pool["name"], found["live_bytes"], pool["height"],
                       pool["height"] / found["live_bytes"] - 1)


def picture(rows):
    models = list(dict.fromkeys(row["model"] for row in rows))
    pools = list(dict.fromkeys(row["pool"] for row in rows))[::-1]
    lines = [plot.text((28, 34), "Memory above the most bytes alive, in percent; 100 or more at "
                       "the right edge", "strong")]
    for i, plan in enumerate(PLANS):
        panel = plot.Panel(150 + 470 * i, 80, 310, 330, f"plan: {plan}",
                           plot.LinearAxis(0, MOST), plot.NameAxis(pools))
        lines += panel.frame()
        for model, color in zip(models, plot.COLORS):
            mine = [row for row in rows if row["model"] == model and row["plan"] == plan]
            lines += panel.marks([(min(MOST, 100 * row["waste"]), pools.index(row["pool"]))
                                  for row in mine], color,
                                 names=[f"{model}: {100 * row['waste']:.1f}%" for row in mine])
    lines += plot.legend((150, 460), 125, [(model, color, "circle")
                                           for model, color in zip(models, plot.COLORS)])
    return plot.document(960, 485, "Memory of dynamic pools and of planned addresses", lines)


STUDY = Study(
    "pools", ("model", "plan", "pool", "live_bytes", "height", "waste"), 1,
    tuple((model, options, SECONDS) for model, options in (
        ("resnet50", ("--batch", 16)), ("densenet121", ("--batch", 8)), ("unet", ("--batch", 4)),
        ("gpt", ("--batch", 2, "--layers", 6)), ("lstm", ("--sequence", 64)),
        ("mobilenetv2", ("--batch", 16)))),
    ("mlp", ("--batch", 256, "--image", 8, "--width", 32, "--layers", 6), 1), rows, picture)
