"""A GPT of Hugging Face whose lengths are drawn at random: eager PyTorch, and Lowtide with and
without the range of lengths (`dynamic_shapes`).

Each way trains the same model on the same batches in a process of its own. Checks that losses are
equal in every bit and that the peak is within the budget. `first_s` is the time until the first
step is done, with all planning; `new_s` and `known_s` are medians of the steps of lengths that came
for the first time, and again. All are seconds of the processor on one thread, which a busy machine
changes little.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[2] / "python"), str(HERE.parents[1])]
import lowtide  # noqa: E402

import models  # noqa: E402
from report import Table  # noqa: E402

WAYS = ("eager", "each length", "range")
COLUMNS = ("model", "way", "budget_bytes", "measured_bytes", "lengths", "first_s", "new_s",
           "known_s", "total_s", "time", "time_after_first")


def planned(way, case, arguments, optimizer):
    if way == "eager":
        return case.module
    length = torch.export.Dim("length", min=arguments.shortest, max=arguments.longest)
    ranges = ({1: length},) * len(case.inputs) if way == "range" else None
    return lowtide.wrap(case.module, case.inputs, arguments.budget, optimizer=optimizer,
                        time_limit=arguments.time_limit, cache=False, dynamic_shapes=ranges,
                        verbose=False)


def train(arguments):
    """Figures of a training in this process."""
    torch.set_num_threads(1)
    case = models.build("gpt2", "cpu", batch=arguments.batch, layers=arguments.layers,
                        width=arguments.width, sequence=arguments.longest,
                        vocabulary=arguments.vocabulary)
    optimizer = torch.optim.AdamW(case.module.parameters(), lr=1e-4)
    drawn = random.Random(1)
    lengths = [drawn.randint(arguments.shortest, arguments.longest)
               for _ in range(arguments.steps)]
    begin = time.process_time()
    model = planned(arguments.way, case, arguments, optimizer)
    losses, new, known, seen = [], [], [], set()
    for length in lengths:
        at = time.process_time()
        optimizer.zero_grad()
        found = model(*(tokens[:, :length].contiguous() for tokens in case.inputs))
        loss = found[0] if isinstance(found, tuple) else found
        loss.backward()
        losses.append(loss.item())
        del found, loss
        optimizer.step()
        (known if length in seen else new).append(time.process_time() - at)
        seen.add(length)
        if len(losses) == 1:
            first = time.process_time() - begin
    total = time.process_time() - begin
    memory = None if arguments.way == "eager" else model.memory
    return {"budget": memory and memory.budget, "peak": memory and memory.measured_peak,
            "losses": losses, "first": first, "total": total, "lengths": len(seen),
            "new": statistics.median(new[1:]), "known": statistics.median(known or [0.0])}


def in_process(way):
    command = [sys.executable, str(HERE), *sys.argv[1:], "--way", way]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(arguments):
    table = Table("varying_lengths", COLUMNS)
    name = (f"gpt2-l{arguments.layers}-w{arguments.width}-b{arguments.batch}-"
            f"{arguments.shortest}..{arguments.longest}")
    eager = None
    for way in arguments.ways:
        found = in_process(way)
        eager = eager or found
        assert found["losses"] == eager["losses"], f"{way}: other losses"
        assert found["peak"] is None or found["peak"] <= found["budget"], f"{way}: over the budget"
        table.add(name, way, found["budget"] or "", found["peak"] or "", found["lengths"],
                  found["first"], found["new"], found["known"], found["total"],
                  found["total"] / eager["total"],
                  (found["total"] - found["first"]) / (eager["total"] - eager["first"]))
    table.close()


def parsed():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=2000)
    parser.add_argument("--shortest", type=int, default=16)
    parser.add_argument("--longest", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--budget", default="60%", help="of what the longest takes, or bytes")
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    given = parsed()
    if given.way:
        print(json.dumps(train(given)))
    else:
        compare(given)
