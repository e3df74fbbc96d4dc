"""The smallest budget of a step with values held in fewer bits, and what that costs in time.

For each model and each kind of `stash=`: the smallest budget that lowtide.wrap names, the time of
its plan and of a step by it, beside a step that keeps everything; and the plan within a share of
what that takes. Budgets hold parameters and gradients, and no optimizer's state.
"""

import argparse
import pathlib
import sys
import time
import warnings

import lowtide
import torch
from lowtide.pytorch.wrap import session_of
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
import torch_models  # noqa: E402
from torch_models import WithLoss  # noqa: E402

from report import Table  # noqa: E402

COLUMNS = ("model", "budget", "stash", "budget_mib", "predicted", "measured", "stashed",
           "gradient_error")
KINDS = (None, "exact", "bf16", "int8")
MIB = 2**20


def made(name):
    """A model with its loss, and a batch: the same at each call."""
    torch.manual_seed(0)
    if name == "gpt":
        net = torch_models.build("gpt", layers=4, width=256, heads=4, sequence=256,
                                 vocabulary=1024, dropout=0.1)
        tokens = torch.randint(0, 1024, (2, 4, 256))
        return WithLoss(net), (tokens[0], tokens[1])
    return WithLoss(pooled()), (torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,)))


def pooled():
    """As VGG, with fewer parameters: convolutions with ReLUs, and pooling between them."""
    layers, channels = [], 3
    for width, count in ((32, 1), (64, 1), (96, 2), (96, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(96 * 16, 128), nn.ReLU(), nn.Dropout(),
                         nn.Linear(128, 10))


def wrapped(name, budget, stash, limit):
    model, inputs = made(name)
    return lowtide.wrap(model, inputs, budget=budget, optimizer="sgd", stash=stash,
                        time_limit=limit, verbose=False), inputs


def smallest(name, stash, limit):
    try:
        wrapped(name, 1, stash, limit)
    except lowtide.InfeasibleError as error:
        return error.smallest_budget
    raise AssertionError("a step in one byte")


def seconds(model, inputs, steps):
    best = float("inf")
    for _ in range(steps + 1):  # the first one warms up
        model.zero_grad()
        start = time.perf_counter()
        model(*inputs).backward()
        best = min(best, time.perf_counter() - start)
    return best


def row(name, budget, stash, arguments, kept_seconds):
    found = smallest(name, stash, arguments.limit) if budget == "smallest" else budget
    try:
        model, inputs = wrapped(name, found, stash, arguments.limit)
    except lowtide.InfeasibleError:
        return (name, budget, stash, "", "", "", "no plan", "")
    session = session_of(model)
    region = session.regions[0]
    kept = (region.plain or region).priced.keep_all_cost
    measured = seconds(model, inputs, arguments.steps)
    error = region.gradient_error
    return (name, budget, stash, session.budget_bytes / MIB, session.plan_for(region).cost / kept,
            measured / kept_seconds, len(region.stashes), error.relative if error else 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=("pooled", "gpt"))
    parser.add_argument("--shares", nargs="+", default=("80%", "60%"))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--limit", type=float, default=30, help="seconds of planning")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    table = Table("stashes", COLUMNS, key=3)
    for name in arguments.models:
        kept_seconds = seconds(*wrapped(name, "100%", None, arguments.limit), arguments.steps)
        for budget in ("smallest", *arguments.shares):
            for stash in KINDS:
                table.add(*row(name, budget, stash, arguments, kept_seconds))
    table.close()


if __name__ == "__main__":
    main()
