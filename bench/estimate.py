"""Estimated beside measured peaks of eager training steps, and beside estimators of others.

Each model trains two steps of eager PyTorch with AdamW; the peak of the second is counted by an
allocator of the bench. `lowtide.estimate` is asked for the same step before. Of others: what
`accelerate estimate-memory` says for training in float32, by its own functions on the same module;
and what DeepSpeed's estimator of ZeRO stage 2 on one GPU without offload says, which is 20 bytes
for each parameter: 4, and 16 that ranks would divide.
"""

import argparse
import gc
import pathlib
import statistics
import sys
import warnings

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE / "pytorch"), str(HERE)]
from counter import Counter  # noqa: E402

COUNTER = Counter()  # before lowtide is imported
import estimate_models  # noqa: E402
import lowtide  # noqa: E402
from accelerate.commands.estimate import estimate_training_usage  # noqa: E402
from accelerate.utils import calculate_maximum_sizes  # noqa: E402

from report import Table  # noqa: E402

COLUMNS = ("model", "size", "measured_bytes", "estimate_bytes", "estimate", "without_workspaces",
           "accelerate", "deepspeed")
DEEPSPEED_BYTES_PER_PARAMETER = 20


def optimizer_of(module):
    return torch.optim.AdamW(module.parameters())


def loss_of(module, inputs):
    output = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
    return getattr(output, "loss", output)


def measured_peak(name, size):
    """Of the second step; model, batch and state of the optimizer included."""
    gc.collect()
    base = COUNTER.now()
    module, inputs = estimate_models.build(name, size)
    optimizer = optimizer_of(module)
    for _ in range(2):
        COUNTER.forget_peak()
        loss_of(module, inputs).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return COUNTER.peak() - base


def accelerate_bytes(module):
    total, _ = calculate_maximum_sizes(module)
    return max(estimate_training_usage(total, "float32").values())


def row_of(name, size):
    module, inputs = estimate_models.build(name, size)
    whole = lowtide.estimate(module, inputs, optimizer=optimizer_of(module))
    values = lowtide.estimate(module, inputs, optimizer=optimizer_of(module), measure=False)
    accelerate = accelerate_bytes(module)
    del module, inputs
    measured = measured_peak(name, size)
    deepspeed = DEEPSPEED_BYTES_PER_PARAMETER * whole.parameters
    return (name, size, measured, whole.peak_bytes, whole.peak_bytes / measured,
            values.peak_bytes / measured, accelerate / measured, deepspeed / measured)


def summary(rows):
    """The median and the largest distance from 1 of each column of ratios, in percent."""
    for column in COLUMNS[4:]:
        off = [100 * abs(row[COLUMNS.index(column)] - 1) for row in rows]
        print(f"{column}: median {statistics.median(off):.3f}% off, at most {max(off):.2f}% off, "
              f"of {len(off)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(arguments.threads)
    table = Table("estimate", COLUMNS, key=2)
    cases = [(name, size) for name in estimate_models.CASES if arguments.only in name
             for size in (0, 1)]
    try:
        for name, size in cases:
            table.add(*row_of(name, size))
        summary(table.rows)
    finally:  # rows stay when it is stopped
        table.close()


if __name__ == "__main__":
    main()
