"""Which values the best plans run again: early or late ones, and of which kinds of op.

Only values count that the forward pass makes and the backward pass reads. A value is rerun if its
op runs more than once.
"""

import collections

import lowtide as package
import plot

from .graphs import storages, zoo_graph
from .study import Study

SHARES = (70, 50)
SECONDS = 10
QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
KINDS = {"convolution": "convolution", "max_pool2d_with_indices": "pooling",
         "native_batch_norm": "batch norm", "relu": "relu", "hardtanh": "relu", "cat": "concat",
         "native_layer_norm": "layer norm", "gelu": "gelu", "addmm": "linear",
         "native_dropout": "dropout", "_softmax": "softmax", "clone": "copy", "add": "add"}


def rows(case):
    """For each budget of a (model, options, shares, seconds): rows by quarter and by kind."""
    model, options, shares, seconds = case
    graph = zoo_graph(model, options)
    saved = saved_by_op(graph)
    for share in shares:
        found = package.plan(graph, f"{share}%", "search", time_limit=seconds)
        if found.plan is None:
            continue
        again = rerun_ops(found.plan)
        for grouping, group_of in (("quarter", _quarter(graph)), ("kind", _kind(graph))):
            bytes_, rerun = collections.Counter(), collections.Counter()
            for op, held in saved.items():
                bytes_[group_of(op)] += held
                rerun[group_of(op)] += held if op in again else 0
            for group in sorted(bytes_):
                yield (model, share, found.overhead, found.gap, grouping, group, bytes_[group],
                       rerun[group], rerun[group] / bytes_[group])


def saved_by_op(graph):
    """Bytes of the results of each forward op that the backward pass reads."""
    tensors, owner = graph.tensors, storages(graph)
    read = {owner[i] for op in graph.ops if op.phase == "backward" for i in op.inputs}
    found = {i: sum(tensors[output].bytes for output in op.outputs if output in read)
             for i, op in enumerate(graph.ops) if op.phase == "forward"}
    return {op: held for op, held in found.items() if held > 0}


def rerun_ops(plan):
    """Ops that run more than once."""
    runs = collections.Counter(action[1] for action in plan.actions if action[0] == "run")
    return {op for op, times in runs.items() if times > 1}


def _quarter(graph):
    """Of the forward pass, by the cost of the ops before."""
    costs = [op.cost if op.phase == "forward" else 0.0 for op in graph.ops]
    whole, before, quarters = sum(costs), 0.0, []
    for cost in costs:
        quarters.append(QUARTERS[min(3, int(4 * before / whole))])
        before += cost
    return quarters.__getitem__


def _kind(graph):
    ops, tensors = graph.ops, graph.tensors

    def kind(i):
        shape = tensors[ops[i].outputs[0]].shape
        name = ops[i].type.removeprefix("aten::").split(".")[0]
        if ".attn." in ops[i].name and len(shape) > 2 and shape[-1] == shape[-2]:
            return "attention matrix"
        return KINDS.get(name, "other")

    return kind


def picture(rows):
    lines = [plot.text((28, 34), "Percent of the saved bytes that run again, within 70% and 50% "
                       "of the keep-all peak", "strong")]
    models = list(dict.fromkeys(row["model"] for row in rows))
    for i, model in enumerate(models):
        for grouping, left, width in (("quarter", 70, 330), ("kind", 460, 620)):
            mine = [row for row in rows if (row["model"], row["grouping"]) == (model, grouping)]
            groups = list(dict.fromkeys(row["group"] for row in mine))
            panel = plot.Panel(left, 80 + 210 * i, width, 130, f"{model}, by {grouping}",
                               plot.NameAxis(groups), plot.LinearAxis(0, 100))
            lines += panel.frame()
            for row in mine:
                j = SHARES.index(row["share"])
                lines += panel.bar(groups.index(row["group"]), (0, 100 * row["rerun_share"]),
                                   plot.COLORS[j + 1], 18 * j - 9)
    height = 100 + 210 * len(models)
    lines += plot.legend((76, height - 24), 200, [(f"within {share}%", plot.COLORS[j + 1], "square")
                                                  for j, share in enumerate(SHARES)])
    return plot.document(1110, height, "Which values the best plans run again", lines)


STUDY = Study(
    "reruns", ("model", "share", "overhead", "gap", "grouping", "group", "saved_bytes",
               "rerun_bytes", "rerun_share"), 1,
    tuple((model, options, SHARES, SECONDS) for model, options in (
        ("resnet50", ("--batch", 32)), ("resnet152", ("--batch", 32)), ("vgg16", ("--batch", 32)),
        ("densenet121", ("--batch", 32)), ("gpt", ("--batch", 8)), ("vit-small", ("--batch", 32)))),
    ("gpt", ("--batch", 1, "--layers", 2, "--width", 64, "--sequence", 64), (70,), 1), rows,
    picture)
