"""How much memory inference needs beside the weights: does a network need more than two buffers?

Each forward pass runs. *Neighbours*: the largest sum of what one op reads and writes, where a
result over its dying input counts once. *Packed*: the height of the planned addresses. Workspaces
of kernels are left out of both, as they are no activations; *measured* has them.
"""

import json
import pathlib
import tempfile

import lowtide as package
import plot
from lowtide_command import lowtide

from . import memory
from .graphs import storages
from .study import Study


def rows(case):
    """A row of a (model, options)."""
    model, options = case
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        result = lowtide("run", "--model", model, *options, "--threads", 1, "--graph-out", path)
        graph = _without_workspaces(path)
    plan = package.plan(graph, "100%", "keep-all").plan
    residents = graph.resident_bytes
    yield (model, residents, memory.bytes_of_values(graph, lambda tensor: True),
           plan.arena_bytes - residents, neighbour_bytes(graph, plan),
           result["measured_peak_bytes"] - residents)


def _without_workspaces(path):
    document = json.loads(path.read_text())
    for op in document["ops"]:
        op.pop("workspace_bytes", None)
        op.pop("allocations", None)
    return package.Graph.parse(json.dumps(document))


def neighbour_bytes(graph, plan):
    """The most that one op of the plan reads and writes."""
    tensors, ops, owner = graph.tensors, graph.ops, storages(graph)
    most = 0
    for action in plan.actions:
        if action[0] == "run":
            op = ops[action[1]]
            touched = {owner[i] for i in (*op.inputs, *op.outputs)}
            held = {i for i in touched if tensors[i].kind == "value"}
            over = {op.outputs[i] for i in action[2]} if len(action) > 2 else set()
            most = max(most, sum(tensors[i].bytes for i in held - over))
    return most


def picture(rows):
    most = max(row["packed_bytes"] / row["all_bytes"] for row in rows)
    panel = plot.Panel(70, 70, 700, 270, "activations of a forward pass, percent of all values",
                       plot.NameAxis([row["model"] for row in rows]),
                       plot.LinearAxis(0, 110 * most))
    lines = list(panel.frame())
    for i, row in enumerate(rows):
        for figure, color, shift in (("packed_bytes", 1, -10), ("neighbour_bytes", 0, 10)):
            share = 100 * row[figure] / row["all_bytes"]
            lines += panel.bar(i, (0, share), plot.COLORS[color], shift)
    lines += plot.legend((76, 390), 220, [("packed", plot.COLORS[1], "square"),
                                          ("what one op reads and writes", plot.COLORS[0],
                                           "square")])
    return plot.document(820, 415, "Memory of inference beside the weights", lines)


STUDY = Study(
    "inference", ("model", "resident_bytes", "all_bytes", "packed_bytes", "neighbour_bytes",
                  "measured_bytes"), 1,
    (("mlp", ("--batch", 256, "--layers", 8)), ("vgg16", ("--batch", 2, "--image", 64)),
     ("segnet", ("--batch", 1, "--image", 64)), ("resnet50", ("--batch", 2, "--image", 64)),
     ("mobilenetv2", ("--batch", 2, "--image", 64)), ("unet", ("--batch", 1, "--image", 64)),
     ("densenet121", ("--batch", 1, "--image", 64)),
     ("gpt", ("--batch", 1, "--layers", 4, "--sequence", 128)), ("lstm", ("--sequence", 16,))),
    ("mlp", ("--batch", 64, "--image", 8, "--width", 32, "--layers", 6)), rows, picture)
