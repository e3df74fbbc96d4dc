"""Whether lowtide.tune chooses well: its first choice beside all combinations, each of them run.

Rows: for each model, the step of the best combination of an exhaustive run, that of tune's first
choice in the same run, and their ratio. Rounds go over all combinations in turn, and a combination
counts by its fastest step, so that a busy machine disturbs all of them alike.
"""

import argparse
import warnings

import lowtide
import torch
from lowtide.pytorch.tune import trial
from lowtide.pytorch.tune.combinations import Allowed, combinations
from lowtide.pytorch.tune.rows_of_batch import number_of_rows
from stashes import made

from report import Table

COLUMNS = ("model", "budget", "combinations", "fit", "best", "best_seconds", "first",
           "first_seconds", "ratio")


def mlp():
    """Of wide layers, with dropout."""
    torch.manual_seed(0)
    layers = [layer for _ in range(8)
              for layer in (torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Dropout(0.1))]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 1)), torch.randn(1024, 512)


def step_of(name):
    return mlp() if name == "mlp" else made(name)


def keep_all_bytes(name, optimizer):
    model, inputs = step_of(name)
    return lowtide.wrap(model, inputs, optimizer=optimizer, verbose=False).memory.planned_peak


def exhaustive(model, inputs, budget, settings, rounds):
    """By combination that fits: seconds of its fastest step."""
    fastest, number = {}, 0
    for _ in range(rounds):
        number = 0
        for combination in combinations(Allowed(()), number_of_rows(inputs), can_fuse=True):
            number += 1
            try:
                run = trial.measured(model, inputs, budget, combination, settings, updates=True)
            except lowtide.InfeasibleError:
                continue
            if run.is_within:
                fastest[combination] = min(run.seconds, fastest.get(combination, float("inf")))
    return fastest, number


def row(name, share, arguments):
    model, inputs = step_of(name)
    optimizer = torch.optim.AdamW(model.parameters())
    budget = int(share * keep_all_bytes(name, "adamw"))
    settings = {"optimizer": optimizer, "time_limit": arguments.time_limit, "verbose": False}
    first = lowtide.tune(model, inputs, budget, precisions=(), **settings).best.combination
    fastest, number = exhaustive(model, inputs, budget, settings, arguments.rounds)
    best = min(fastest, key=fastest.get)
    ratio = fastest[first] / fastest[best]
    return (name, f"{share:.0%}", number, len(fastest), best.label, fastest[best], first.label,
            fastest[first], ratio)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=("mlp", "pooled", "gpt"))
    parser.add_argument("--shares", nargs="+", type=float, default=(0.7,),
                        help="of what each step takes")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    table = Table("tune", COLUMNS, key=2)
    for name in arguments.models:
        for share in arguments.shares:
            table.add(*row(name, share, arguments))
    table.close()


if __name__ == "__main__":
    main()
