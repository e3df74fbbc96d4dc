"""One tool on one model in this process: prints its figures as a line of JSON.

Bytes are counted from what lives right before the tool is set up: model, optimizer state and batch.
What the tool holds between steps is therefore the step's. A step is loss, backward, update; its
peak and its times are of steps after the first, which compiles or plans.
"""

import argparse
import importlib
import json
import pathlib
import time

import torch
import verdict
from counter import Counter

from tools import NotApplicable

SEED = 1


def train_step(loss, optimizer):
    torch.manual_seed(SEED)
    loss().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def first_step(case, loss, optimizer, reference_path):
    """What the first step's results are worth beside eager's, which are written where missing."""
    def same_draws():
        torch.manual_seed(SEED)
        return loss()

    value = same_draws()
    value.backward()
    outcome = verdict.Outcome.of(case.module, value)
    del value
    optimizer.zero_grad(set_to_none=True)
    if not reference_path.exists():
        torch.save((outcome, verdict.rounding_of(case, outcome, SEED)), reference_path)
    reference, rounding = torch.load(reference_path, weights_only=False)
    gradients, error = verdict.judge_gradients(case, same_draws, outcome, reference, rounding)
    return {"gradients": gradients, "gradient_error": error, "rounding": rounding,
            "buffers": verdict.judge_buffers(outcome, reference, rounding)}


def timed_steps(counter, loss, optimizer, count):
    """Peak bytes, least CPU seconds and least wall seconds of `count` steps: what else runs on the
    machine only adds to them."""
    peaks, cpu, wall = [], [], []
    for _ in range(count):
        counter.forget_peak()
        wall_begin, cpu_begin = time.perf_counter(), time.process_time()
        train_step(loss, optimizer)
        cpu.append(time.process_time() - cpu_begin)
        wall.append(time.perf_counter() - wall_begin)
        peaks.append(counter.peak())
    return max(peaks), min(cpu), min(wall)


def measure(arguments, counter):
    import models

    tool = importlib.import_module(f"tools.{arguments.tool}")
    case = models.build(arguments.model, **json.loads(arguments.sizes))
    optimizer = models.optimizer_of(case)
    base = counter.now()
    begin = time.perf_counter()
    try:
        loss = tool.prepare(case, optimizer, arguments.setting)
    except NotApplicable as reason:
        return {"not_applicable": str(reason)}
    results = first_step(case, loss, optimizer, arguments.reference)
    setup = time.perf_counter() - begin
    held = counter.now() - base
    peak, cpu, wall = timed_steps(counter, loss, optimizer, arguments.steps)
    return {"batch": len(case.inputs[0]), "base_bytes": base, "held_bytes": held,
            "peak_above_bytes": peak - base, "peak_total_bytes": peak, "step_cpu_s": cpu,
            "step_wall_s": wall, "setup_s": setup, **results, **getattr(loss, "planned", {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--setting", default="")
    parser.add_argument("--sizes", default="{}", help="JSON: what models.build() is given")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--reference", type=pathlib.Path, required=True,
                        help="eager's first step: read, or written where it is missing")
    arguments = parser.parse_args()

    counter = Counter()
    torch.set_num_threads(arguments.threads)
    print(json.dumps(measure(arguments, counter)))


if __name__ == "__main__":
    main()
