"""Every model of the zoo within 40% of keep-all's activations, planned and run for two steps with --check.

Activations: the keep-all peak less the residents (parameters, optimizer state, buffers, the batch)
and less the gradients of the parameters, which no plan can do without until the update.
"""

import argparse
import json
import pathlib
import sys
import tempfile

from lowtide import Failed, lowtide
from report import Table

# Sizes small enough for a laptop; the shape of each network stays.
CASES = {
    "mlp": ["--batch", 4096], "vgg16": ["--batch", 8], "vgg19": ["--batch", 8], "resnet18": ["--batch", 8],
    "resnet50": ["--batch", 8], "resnet152": ["--batch", 4], "mobilenet": ["--batch", 8],
    "mobilenetv2": ["--batch", 8], "densenet121": ["--batch", 4], "inceptionv3": ["--batch", 4],
    "unet": ["--batch", 2], "fcn8": ["--batch", 1], "segnet": ["--batch", 1],
    "lstm": ["--batch", 32], "gpt": ["--batch", 1], "vit-small": ["--batch", 4],
}
COLUMNS = ("model", "keep_all_bytes", "activation_bytes", "budget_bytes", "measured_bytes", "strategy", "overhead",
           "bit_identical")


def fixed_bytes(graph):
    """Residents and gradients of a graph file."""
    tensors = json.loads(pathlib.Path(graph).read_text())["tensors"]
    return sum(t["bytes"] for t in tensors if t["kind"] == "resident" or t.get("role") == "gradient")


def budget_for(model, options, share, folder):
    """(keep-all bytes, activation bytes, budget) after profiling the model's graph."""
    graph = pathlib.Path(folder) / "graph.json"
    lowtide("graph", "--model", model, *options, "-o", graph)
    lowtide("profile", graph, "-o", graph)
    keep_all = lowtide("plan", graph, "--strategy", "keep-all", "--budget", "100GiB",
                       "-o", pathlib.Path(folder) / "plan.json")["peak_bytes"]
    activations = keep_all - fixed_bytes(graph)
    return keep_all, activations, int(keep_all - (1 - share) * activations)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--share", type=float, default=0.4, help="of the activations (default 0.4)")
    parser.add_argument("--models", default=",".join(CASES))
    arguments = parser.parse_args()

    table, failures = Table("zoo_budgets", COLUMNS), 0
    for model in arguments.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            keep_all, activations, budget = budget_for(model, CASES[model], arguments.share, folder)
        try:
            result = lowtide("train", "--model", model, *CASES[model], "--budget", budget, "--steps", 2,
                             "--lr", "0.001", "--check")
            table.add(model, keep_all, activations, budget, result["measured_peak_bytes"], result["strategy"],
                      result["overhead"], result["bit_identical"])
        except Failed as failed:
            table.add(model, keep_all, activations, budget, 0, str(failed), float("nan"), False)
            failures += 1
    table.close()
    sys.exit(f"{failures} cases failed" if failures else 0)


if __name__ == "__main__":
    main()
