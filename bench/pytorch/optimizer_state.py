"""Adam's state on a disk beside Adam's state in memory: time of a step, and the measured peak.

Each way trains the same GPT in a process of its own, and the ways take turns; times are the median
of all steps. The budget of the disk's way is a share of what a step takes with all in memory.
Checks that losses are equal in every bit, and that the peak is within the budget.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[2] / "python"), str(HERE.parents[1])]
import lowtide  # noqa: E402

import models  # noqa: E402
from report import Table  # noqa: E402

WAYS = ("memory", "disk")
COLUMNS = ("model", "way", "budget_bytes", "measured_bytes", "state_moved_bytes", "waited",
           "step_s", "optimizer_s", "time")


def train(arguments):
    """Figures of a training in this process."""
    torch.manual_seed(1)
    case = models.build("gpt", "cpu", batch=arguments.batch, layers=arguments.layers,
                        width=arguments.width, sequence=arguments.sequence)
    optimizer = torch.optim.AdamW(case.module.parameters(), lr=1e-4)
    moving = {"offload": lowtide.Offload(arguments.disk, optimizer_state=True)}
    model = lowtide.wrap(case.module, case.inputs, arguments.budget or None, optimizer=optimizer,
                         time_limit=arguments.time_limit,
                         **(moving if arguments.way == "disk" else {}))
    losses, steps, updates = [], [], []
    for _ in range(arguments.steps + 1):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = model(*case.inputs)
        loss.backward()
        losses.append(loss.item())
        del loss
        update = time.perf_counter()
        optimizer.step()
        steps.append(time.perf_counter() - begin)
        updates.append(time.perf_counter() - update)
    optimizer.zero_grad()
    model(*case.inputs)  # from now on the peak has what the last step of the optimizer took
    memory = model.memory
    return {"budget": memory.budget, "peak": memory.measured_peak, "losses": losses,
            "moved": memory.state_moved.bytes_in + memory.state_moved.bytes_out,
            "waited": memory.state_moved.wait_seconds, "steps": steps[1:], "updates": updates[1:]}


def run(arguments, way, budget):
    """Those of a process of its own."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in vars(arguments).items()
               if name not in ("way", "budget")]
    output = subprocess.run([sys.executable, HERE, *options, f"--way={way}", f"--budget={budget}"],
                            check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])


def compare(arguments):
    table = Table("optimizer_state", COLUMNS)
    found = {way: [] for way in WAYS}
    for _ in range(arguments.rounds):
        found["memory"].append(run(arguments, "memory", ""))
        budget = int(found["memory"][0]["peak"] * arguments.share)
        found["disk"].append(run(arguments, "disk", budget))
    base = median(found["memory"], "steps")
    for way, runs in found.items():
        last = runs[-1]
        if last["losses"] != found["memory"][0]["losses"]:
            sys.exit(f"{way}: the losses differ")
        if last["budget"] is not None and last["peak"] > last["budget"]:
            sys.exit(f"{way}: the budget was exceeded")
        step = median(runs, "steps")
        table.add(f"gpt-{arguments.layers}x{arguments.width}", way, last["budget"], last["peak"],
                  last["moved"], last["waited"], step, median(runs, "updates"), step / base)
    table.close()


def median(runs, what):
    return statistics.median(seconds for one in runs for seconds in one[what])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=128)
    parser.add_argument("--share", type=float, default=0.6, help="of the peak of all in memory")
    parser.add_argument("--disk", default=tempfile.gettempdir(), help="a folder on the disk to use")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--time-limit", type=float, default=10, help="of planning, in seconds")
    parser.add_argument("--way", choices=WAYS, help="run this way alone, in this process")
    parser.add_argument("--budget", default="", help="of this way, in bytes")
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(train(arguments)))
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
