"""The least memory of a step, in slices of the batch and without, and what it costs in time.

`floors`: the smallest budget that each number of slices has a plan for, and that step beside one of
eager PyTorch. `head`: a head over a large vocabulary, in slices, and by what PyTorch has for it: a
loss in chunks, Inductor's auto_chunker. Each measurement is a process of its own, as of
bench/pytorch/run.py, and they take turns. Bytes are above what exists before the step.
"""

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "pytorch"))
from run import Bench, Conditions, Job  # noqa: E402

from report import Table  # noqa: E402

COLUMNS = ("model", "tool", "setting", "peak_above_mib", "of_eager", "time", "planned_mib",
           "gradients", "gradient_error", "device")
FLOORS = ("gpt", "unet", "lstm", "resnet50")


def jobs(arguments):
    if arguments.what == "head":
        ours = [Job("head", "lowtide_slices", f"{slices}/{budget}")
                for slices in arguments.slices for budget in ("inf", "lowest")]
        return [Job("head", "eager"), Job("head", "chunked_loss"), Job("head", "auto_chunker"),
                *ours]
    return [job for model in arguments.models
            for job in (Job(model, "eager"), *(Job(model, "lowtide_slices", f"{slices}/lowest")
                                               for slices in arguments.slices))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("floors", "head"))
    parser.add_argument("--models", nargs="+", default=FLOORS)
    parser.add_argument("--slices", type=int, nargs="+", default=(1, 8))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sizes", default="{}", help="JSON: sizes of the models")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    table = Table("smaller", COLUMNS, key=3)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Conditions.of(arguments), folder)
        wanted = jobs(arguments)
        for _ in range(arguments.rounds):
            for job in wanted:
                bench.take(job)
        rows = {Job(row.model, row.tool, row.setting): row for row in bench.rows()}
    for job, row in rows.items():
        eager = rows[Job(job.model, "eager")]
        planned = row.planned_above_bytes
        table.add(job.model, job.tool, job.setting, row.peak_above_bytes / 2**20,
                  row.peak_above_bytes / eager.peak_above_bytes, row.time_x_eager,
                  "" if planned == "" else planned / 2**20, row.gradients,
                  row.gradient_error, row.device)
    table.close()


if __name__ == "__main__":
    main()
