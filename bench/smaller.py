"""The least memory of a step by slices, updates in the backward pass and fewer bits, and the time.

`floors`: the smallest budgets that there are plans for, beside what whole ops need, and eager
PyTorch. `within`: a step within one budget, with slices and without. `head`: a head over a large
vocabulary, in slices, and by what PyTorch has for it: a loss in chunks, Inductor's auto_chunker.
`precision`: what a step keeps between its passes in single precision and in bf16. Each
measurement is a process of its own, as of bench/pytorch/run.py, and they take turns. Bytes are
above what exists before the step; times are CPU seconds by those of eager PyTorch in single
precision.
"""

import argparse
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "pytorch"))
from run import Bench, Conditions, Job  # noqa: E402

from report import Table  # noqa: E402

COLUMNS = ("model", "tool", "setting", "peak_above_mib", "of_eager", "time", "planned_mib",
           "floor_mib", "kept_mib", "gradients", "gradient_error", "device")
MODELS = ("gpt", "unet", "lstm", "resnet50")
MIB = 2**20


def floors(model, arguments):
    return {"": [Job(model, "eager"), *(
        Job(model, "lowtide_slices", f"{slices}/lowest{update}")
        for slices in arguments.slices for update in ("", "/fused"))]}


def within(model, arguments):
    return {"": [Job(model, "eager"), Job(model, "checkpoint"), *(
        Job(model, "lowtide_slices", f"{slices}/+{arguments.above}{update}")
        for slices in arguments.slices for update in ("", "/fused"))]}


def head(model, arguments):
    return {"": [Job(model, "eager"), Job(model, "chunked_loss"), Job(model, "auto_chunker"), *(
        Job(model, "lowtide_slices", f"{slices}/{budget}")
        for slices in arguments.slices for budget in ("inf", "lowest"))]}


def precision(model, arguments):
    return {"": [Job(model, "eager"), Job(model, "lowtide", "inf")],
            "bfloat16": [Job(model, "eager"), Job(model, "lowtide_precision", "bf16")]}


# The models of each, and the jobs of one of them by the type of the autocast in which they run.
WHAT = {"floors": (MODELS, floors), "within": (("gpt",), within), "head": (("head",), head),
        "precision": (MODELS, precision)}


def measured(model, jobs, arguments, folder):
    """By autocast's type, the bench with all rounds."""
    benches = {autocast: Bench(Conditions.of(argparse.Namespace(
        **{**vars(arguments), "autocast": autocast})), pathlib.Path(folder, f"{model}{autocast}"))
        for autocast in jobs}
    for _ in range(arguments.rounds):
        for autocast, bench in benches.items():
            bench.folder.mkdir(exist_ok=True)
            for job in jobs[autocast]:
                bench.take(job)
    return benches


def add_rows(table, model, benches):
    eager = next(row for row in benches[""].rows() if row.tool == "eager")
    for autocast, bench in benches.items():
        for row in bench.rows():
            figures = bench.figures[Job(model, row.tool, row.setting)][0]
            table.add(model, row.tool, row.setting or autocast, row.peak_above_bytes / MIB,
                      row.peak_above_bytes / eager.peak_above_bytes,
                      row.step_cpu_s / eager.step_cpu_s, mib(row.planned_above_bytes),
                      mib(row.floor_above_bytes), mib(figures["kept_bytes"]), row.gradients,
                      row.gradient_error, row.device)


def mib(count):
    return "" if count == "" else count / MIB


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=WHAT)
    parser.add_argument("--models", nargs="+", help="of those that are measured so")
    parser.add_argument("--slices", nargs="+", default=("1", "8"), help="numbers, or auto")
    parser.add_argument("--above", type=int, default=311_000_000,
                        help="bytes of the budget of `within`; by default what torch's checkpoint "
                        "takes for the gpt")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--planning-seconds", type=float, help="of each plan, at most")
    parser.add_argument("--sizes", default="{}", help="JSON: sizes of the models")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    models, jobs_of = WHAT[arguments.what]
    table = Table("smaller", COLUMNS, key=3)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for model in arguments.models or models:
                benches = measured(model, jobs_of(model, arguments), arguments, folder)
                add_rows(table, model, benches)
    finally:  # Ctrl-C keeps the models that are measured
        table.close()


if __name__ == "__main__":
    main()
