"""Every model of the zoo within 40% of keep-all's activations, run for two steps with --check.

Activations: the keep-all peak less the residents (parameters, optimizer state, buffers, the batch)
and less the gradients of the parameters, which no plan can do without until the update. Where that
is below what some single op needs (`floor_bytes`, a proof that no plan exists), or where no
strategy gets there, the model runs within the smallest budget that one reaches, and
`of_activations` says which share that is. The exit code tells the second case from the first.
"""

import argparse
import pathlib
import sys
import tempfile

import lowtide as package
from lowtide_command import Failed, lowtide

from report import Table

# Sizes small enough for a laptop; the shape of each network stays.
CASES = {
    "mlp": ["--batch", 4096, "--layers", 12], "vgg16": ["--batch", 8], "vgg19": ["--batch", 8],
    "resnet18": ["--batch", 8], "resnet50": ["--batch", 8], "resnet152": ["--batch", 4],
    "mobilenet": ["--batch", 8], "mobilenetv2": ["--batch", 8], "densenet121": ["--batch", 4],
    "inceptionv3": ["--batch", 4], "unet": ["--batch", 2], "fcn8": ["--batch", 1],
    "segnet": ["--batch", 1], "lstm": ["--batch", 32], "gpt": ["--batch", 1],
    "vit-small": ["--batch", 4],
}
COLUMNS = ("model", "keep_all_bytes", "activation_bytes", "floor_bytes", "budget_bytes",
           "of_activations", "measured_bytes", "strategy", "overhead", "bit_identical")
PLANNING_SECONDS = 30
STRATEGIES = ("search", "lower-sets", "segments")


def profiled_graph(model):
    """The model's training graph with measured times and workspaces."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "graph.json"
        lowtide("graph", "--model", model, *CASES[model], "-o", path)
        lowtide("profile", path, "-o", path)
        return package.Graph.load(path)


def activation_bytes(graph, keep_all_bytes):
    gradients = sum(t.bytes for t in graph.tensors if t.role == "gradient" and t.kind == "value")
    return keep_all_bytes - graph.resident_bytes - gradients


def reachable(graph, budget):
    """(the budget, or the smallest one that a strategy reaches; the first strategy that does)."""
    smallest = []
    for strategy in STRATEGIES:
        found = package.plan(graph, budget, strategy, time_limit=PLANNING_SECONDS)
        if found.plan is not None:
            return budget, strategy
        if found.smallest_budget is not None:
            smallest.append((found.smallest_budget, strategy))
    if not smallest:
        raise Failed(4, f"no strategy found a plan within {budget} bytes in {PLANNING_SECONDS} s")
    return min(smallest)


def run_within(model, budget, strategy):
    return lowtide("train", "--model", model, *CASES[model], "--budget", budget, "--strategy",
                   strategy, "--steps", 2, "--lr", "0.001", "--time-limit", PLANNING_SECONDS,
                   "--check")


def measure(model, share):
    """(a row of the table, whether the share was reached or is impossible)."""
    graph = profiled_graph(model)
    keep_all = package.plan(graph, "100%", "keep-all").keep_all_peak_bytes
    activations = activation_bytes(graph, keep_all)
    wanted = int(keep_all - (1 - share) * activations)
    floor = package.structural_floor_bytes(graph)
    reached_bytes, strategy = reachable(graph, wanted)
    # A thousandth more: the command keeps room for states of the random generator.
    budget = int(reached_bytes * 1.001)
    result = run_within(model, budget, strategy)
    reached = (reached_bytes == wanted or wanted < floor) and result["bit_identical"]
    return (model, keep_all, activations, floor, budget, 1 - (keep_all - budget) / activations,
            result["measured_peak_bytes"], strategy, result["overhead"],
            result["bit_identical"]), reached


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--share", type=float, default=0.4, help="of the activations (default 0.4)")
    parser.add_argument("--models", default=",".join(CASES))
    arguments = parser.parse_args()

    table, failures = Table("zoo_budgets", COLUMNS), []
    for model in arguments.models.split(","):
        try:
            row, reached = measure(model, arguments.share)
            table.add(*row)
            failures += [] if reached else [model]
        except Failed as failed:
            print(f"{model}: {failed}", flush=True)
            failures.append(model)
    table.close()
    sys.exit(f"not reached: {', '.join(failures)}" if failures else 0)


if __name__ == "__main__":
    main()
