"""One tool on one model in this process: prints its figures as a line of JSON.

Bytes are counted from what lives right before the tool is set up: model, optimizer state and batch.
What the tool holds between steps is therefore the step's. A step is loss, backward, update; its
peak and its times are of steps after the first, which compiles or plans.
"""

import argparse
import contextlib
import functools
import importlib
import json
import os
import pathlib
import time

import devices
import torch
import verdict

import models
from tools import OURS, NotApplicable

SEED = 1


def train_step(loss, optimizer, between_passes):
    torch.manual_seed(SEED)
    value = loss()
    between_passes()
    value.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def first_step(case, loss, optimizer, reference_path, autocast):
    """What the first step's results are worth beside eager's, which are written where missing."""
    def same_draws():
        torch.manual_seed(SEED)
        return loss()

    taken = getattr(loss, "updates", False)
    with models.restored(case, optimizer):
        value = same_draws()
        value.backward()
        if taken:
            optimizer.step()  # says that the step has ended: the backward pass has updated
        outcome = verdict.Outcome.of(case.module, value,
                                     models.gradients_of(case, optimizer, taken))
        del value
    optimizer.zero_grad(set_to_none=True)
    if not reference_path.exists():
        torch.save((outcome, verdict.rounding_of(case, autocast)), reference_path)
    reference, rounding = torch.load(reference_path, weights_only=False)
    gradients, error = verdict.judge_gradients(case, same_draws, outcome, reference, rounding)
    return {"gradients": gradients, "gradient_error": error, "rounding": rounding,
            "buffers": verdict.judge_buffers(outcome, reference, rounding)}


def timed_steps(device, loss, optimizer, count):
    """Peak bytes, bytes between the passes, least CPU seconds and least wall seconds of `count`
    steps: what else runs on the machine only adds to them."""
    counter = device.counter
    peaks, between, cpu, wall = [], [], [], []
    for _ in range(count):
        counter.forget_peak()
        device.finish()
        wall_begin, cpu_begin = time.perf_counter(), time.process_time()
        train_step(loss, optimizer, lambda: between.append(counter.now()))
        device.finish()
        cpu.append(time.process_time() - cpu_begin)
        wall.append(time.perf_counter() - wall_begin)
        peaks.append(counter.peak())
    return max(peaks), max(between), min(cpu), min(wall)


def measure(arguments, device):
    tool = importlib.import_module(f"tools.{arguments.tool}")
    case = models.build(arguments.model, device.name, **json.loads(arguments.sizes))
    optimizer = models.optimizer_of(case)
    base = device.counter.now()
    chosen_autocast = functools.partial(autocast, arguments, device)
    begin = time.perf_counter()
    try:
        with chosen_autocast():
            prepared = tool.prepare(case, optimizer, arguments.setting, **planning(arguments))
    except NotApplicable as reason:
        return {"not_applicable": str(reason)}

    @functools.wraps(prepared)
    def loss():
        with chosen_autocast():
            return prepared()

    results = first_step(case, loss, optimizer, arguments.reference, chosen_autocast)
    setup = time.perf_counter() - begin
    held = device.counter.now() - base
    peak, between, cpu, wall = timed_steps(device, loss, optimizer, arguments.steps)
    return {"batch": len(case.inputs[0]), "base_bytes": base, "held_bytes": held,
            "peak_above_bytes": peak - base,
            "peak_total_bytes": peak, "kept_bytes": between - base, "step_cpu_s": cpu,
            "step_wall_s": wall, "setup_s": setup, "device": devices.described(device.name),
            **results, **getattr(prepared, "planned", {})}


def planning(arguments):
    """Of a tool of ours."""
    if arguments.tool not in OURS or arguments.planning_seconds is None:
        return {}
    return {"time_limit": arguments.planning_seconds}


def autocast(arguments, device):
    if not arguments.autocast:
        return contextlib.nullcontext()
    return torch.autocast(device.name, getattr(torch, arguments.autocast))


def be_deterministic():
    """So that two runs of eager PyTorch on a GPU give the same bits."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it would write every new tensor


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--setting", default="")
    parser.add_argument("--sizes", default="{}", help="JSON: what models.build() is given")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--autocast", default="", help="a dtype, such as bfloat16")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--planning-seconds", type=float, help="of a plan, at most")
    parser.add_argument("--reference", type=pathlib.Path, required=True,
                        help="eager's first step: read, or written where it is missing")
    arguments = parser.parse_args()

    device = devices.opened(arguments.device)
    torch.set_num_threads(arguments.threads)
    if arguments.deterministic:
        be_deterministic()
    print(json.dumps(measure(arguments, device)))


if __name__ == "__main__":
    main()
