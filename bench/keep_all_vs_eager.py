"""Keep-all step time against PyTorch eager: same model, batch, optimizer and threads.

Processes take turns. Prints the ratio of medians (ours / eager); below 1 is faster than eager.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

from lowtide_command import lowtide

from report import Table

CASES = {"resnet50": 16, "unet": 8, "gpt": 4}
EAGER = pathlib.Path(__file__).with_name("eager_step.py")


def eager_seconds(model, batch, steps, threads):
    """Seconds of each step but the first, which warms up."""
    command = [sys.executable, EAGER, model, "--batch", str(batch), "--steps", str(steps + 1),
               "--threads", str(threads)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)[1:]


def our_seconds(model, batch, steps, threads):
    result = lowtide("train", "--model", model, "--batch", batch, "--steps", steps + 1,
                     "--threads", threads, "--lr", "0.01")
    return result["seconds_of_steps"][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="per process, after one that warms up")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    table = Table("keep_all_vs_eager",
                  ("model", "batch", "threads", "eager_s", "lowtide_s", "ratio"))
    for model, batch in CASES.items():
        size = (model, batch, arguments.steps, arguments.threads)
        eager, ours = [], []
        for _ in range(arguments.rounds):
            eager += eager_seconds(*size)
            ours += our_seconds(*size)
        medians = statistics.median(eager), statistics.median(ours)
        table.add(model, batch, arguments.threads, *medians, medians[1] / medians[0])
    table.close()


if __name__ == "__main__":
    main()
