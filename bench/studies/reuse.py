"""What each way to reuse memory saves, by depth of ResNets and by length of LSTMs.

The ways of Chen, Xu, Zhang and Guestrin, *Training deep nets with sublinear memory cost*, 2016:
memory of its own for each value (nothing), results written over dying inputs (in place), memory
freed after a value's last use (sharing), forward values that are dropped and run again
(checkpoints), and all together. *Features* are values less the gradients of parameters; *total*
also counts those and the residents, and for all together the holes of the packed arena.
"""

import math

import lowtide as package
import plot

from . import memory
from .graphs import storages, zoo_graph
from .study import Study

WAYS = ("nothing", "in place", "sharing", "checkpoints", "all")
TOO_SMALL = 1  # a budget of one byte: the answer is the smallest plan


def checkpoints(graph, model, size):
    """The smallest plan with checkpoints. At the steps of an LSTM no single value is a border, so
    that `chen-sqrt` cuts nowhere; there sqrt(steps) equal segments are the same rule."""
    if model == "lstm":
        found = package.plan(graph, TOO_SMALL, "segments",
                             options={"segments": round(math.sqrt(size))})
    else:
        found = package.plan(graph, TOO_SMALL, "chen-sqrt")
    return found.smallest_plan


def rows(case):
    """Five rows, one for each way, of a (model, size, options)."""
    model, size, options = case
    graph = zoo_graph(model, options)
    kept = package.plan(graph, "100%", "keep-all")
    dropped = checkpoints(graph, model, size)
    features = _bytes(graph, kept.plan, dropped, lambda tensor: tensor.role != "gradient")
    total = _bytes(graph, kept.plan, dropped, lambda tensor: True)
    overhead = dropped.cost / kept.keep_all_cost - 1
    for way in WAYS:
        held = total[way] + graph.resident_bytes
        yield (model, size, way, features[way], dropped.arena_bytes if way == "all" else held,
               overhead if way in ("checkpoints", "all") else 0.0)


def _bytes(graph, kept, dropped, counts):
    """Of each way, the most bytes at one time of the values that count."""
    owner = storages(graph)
    forward = {owner[output] for op in graph.ops if op.phase == "forward" for output in op.outputs}
    nothing = memory.bytes_of_values(graph, counts)
    return {"nothing": nothing,
            "in place": nothing - memory.bytes_written_in_place(graph, kept, counts),
            "sharing": memory.peak_bytes(graph, kept, counts, in_place=False),
            "checkpoints": memory.peak_bytes(graph, dropped, counts, in_place=False,
                                             freed=forward.__contains__),
            "all": memory.peak_bytes(graph, dropped, counts)}


def picture(rows):
    lines = []
    for i, (figure, title) in enumerate((("feature_bytes", "features"), ("total_bytes", "total"))):
        for j, (family, name) in enumerate((("resnet", "ResNet"), ("lstm", "LSTM"))):
            mine = [row for row in rows if row["model"].startswith(family)]
            lines += _panel(i, j, f"{name}, {title}: MiB", mine, figure)
    lines += plot.legend((76, 690), 150, [(way, color, "circle")
                                          for way, color in zip(WAYS, plot.COLORS)])
    return plot.document(900, 715, "Memory under each way to reuse it", lines)


def _panel(i, j, title, rows, figure):
    sizes = sorted({row["size"] for row in rows})
    bytes_ = [row[figure] / 2**20 for row in rows]
    panel = plot.Panel(80 + 430 * j, 60 + 315 * i, 350, 240, title,
                       plot.NameAxis([f"{size:.0f}" for size in sizes]), plot.LogAxis(bytes_))
    yield from panel.frame()
    for way, color in zip(WAYS, plot.COLORS):
        points = sorted((sizes.index(row["size"]), row[figure] / 2**20) for row in rows
                        if row["way"] == way)
        yield from panel.curve(points, color)
        yield from panel.marks(points, color)


STUDY = Study(
    "reuse", ("model", "size", "way", "feature_bytes", "total_bytes", "overhead"), 2,
    (*((f"resnet{n}", n, ("--batch", 32)) for n in (18, 50, 152)),
     *(("lstm", n, ("--sequence", n)) for n in (16, 32, 64, 128, 256))),
    ("resnet18", 18, ("--batch", 2, "--image", 64)), rows, picture)
