"""What the examples share: trains a model in several ways and prints bytes, times and bits.

Each way starts from the same weights, trains the same few steps with the same random numbers, and
is compared with eager training.
"""

import argparse
import dataclasses
import functools
import pathlib
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch.utils.checkpoint import checkpoint

import lowtide
from lowtide import _runtime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

WARM_UP = 2  # steps: the first one plans, and from the second on the optimizer holds its state
COLUMNS = "{:<22} {:>12} {:>12} {:>10} {:>10}  {}"


@dataclasses.dataclass(frozen=True)
class Example:
    """`model(*inputs)` is the loss. `blocks`: methods, (module, name), for torch's checkpoint."""

    model: torch.nn.Module
    inputs: tuple
    blocks: tuple = ()
    optimizer: Callable = functools.partial(torch.optim.AdamW, lr=1e-4, fused=True)


@dataclasses.dataclass(frozen=True)
class Trained:
    """How the steps went. Bytes above what there was before a step; seconds of a step."""

    losses: list
    state: dict
    seconds: float
    peak_bytes: int


class WithLoss(torch.nn.Module):
    """A network whose call gives the loss: the whole step is planned as one."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, target):
        return self.loss(self.net(x), target)


def eagerly(example, optimizer):
    return example.model


def checkpointed(example, optimizer):
    """torch.utils.checkpoint around each block."""
    for module, name in example.blocks:
        method = getattr(module, name)
        setattr(module, name, functools.partial(checkpoint, method, use_reentrant=False))
    return example.model


def within(budget, seconds):
    def planned(example, optimizer):
        return lowtide.wrap(example.model, example.inputs, budget=budget, optimizer=optimizer,
                            time_limit=seconds)
    return planned


def trained(make, prepare, steps):
    """Builds the example, prepares it in one of the ways above, and trains it."""
    torch.manual_seed(0)
    example = make()
    example.model.train()
    optimizer = example.optimizer(example.model.parameters())
    model = prepare(example, optimizer)
    losses, seconds, peak = [], [], 0
    device = str(torch.get_default_device())
    for step in range(WARM_UP + steps):
        torch.manual_seed(step)
        base = _runtime.taken_bytes(device)
        _runtime.reset_peaks(device)
        begin = time.perf_counter()
        loss = model(*example.inputs)
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        peak = _runtime.taken_peak_bytes(device) - base
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    if hasattr(model, "memory"):
        peak = model.memory.measured_above
    return Trained(losses, example.model.state_dict(), statistics.median(seconds[WARM_UP:]), peak)


def difference(ours, eager):
    """In words: what is not equal to the last bit."""
    if ours.losses != eager.losses:
        return "other losses"
    names = [name for name in eager.state if not torch.equal(ours.state[name], eager.state[name])]
    statistic = ("running_mean", "running_var", "num_batches_tracked")
    if not names:
        return "bit-identical"
    if all(name.endswith(statistic) for name in names):
        return "other batch-norm statistics"
    return "other parameters"


def show(name, ours, eager):
    print(COLUMNS.format(name, lowtide.format_bytes(ours.peak_bytes),
                         f"{ours.peak_bytes / eager.peak_bytes:.0%}", f"{ours.seconds:.3f} s",
                         f"{ours.seconds / eager.seconds:.2f}x", difference(ours, eager)),
          flush=True)


def main(description, make, budgets, full_budgets):
    """The program of an example. `make(full)` gives an Example, small unless `full`."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--full", action="store_true", help="the size of the real model")
    parser.add_argument("--budgets", help="such as 800MiB,60%%")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--planning-seconds", type=float, default=None, help="10 if --full, else 1")
    arguments = parser.parse_args()
    asked = arguments.budgets.split(",") if arguments.budgets else None
    seconds = arguments.planning_seconds or (10 if arguments.full else 1)

    build = functools.partial(make, arguments.full)
    print(COLUMNS.format("", "peak", "of eager", "step", "of eager", "beside eager"))
    eager = trained(build, eagerly, arguments.steps)
    show("eager", eager, eager)
    show("torch's checkpoint", trained(build, checkpointed, arguments.steps), eager)
    show("lowtide, no limit", trained(build, within(None, seconds), arguments.steps), eager)
    for budget in asked or (full_budgets if arguments.full else budgets):
        ours = trained(build, within(budget, seconds), arguments.steps)
        show(f"lowtide, {budget}", ours, eager)
    print("The peak is what a step takes beside parameters, optimizer state and batch.")
