"""A step of a pipeline: lowtide.pipeline beside torch.distributed.pipelining with PyTorch's own
passes, with every value kept and with torch.utils.checkpoint around each block.

The same blocks, cuts, schedule, micro-batches and processes; ways take turns in one run. Peaks are
those of PyTorch's allocator in each process, with what existed before. Times are medians of steps
without a profiler. Budgets are shares of the largest peak of PyTorch's pipeline that keeps all.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile
import time

import lowtide
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
from group_processes import run_ranks  # noqa: E402
from lowtide.pytorch.pipeline.schedules import SCHEDULES  # noqa: E402
from torch_memory import profiled  # noqa: E402

from report import Table  # noqa: E402

COLUMNS = ("schedule", "way", "rank", "budget_mib", "peak_mib", "peak_ratio", "step_ms",
           "time_ratio", "predicted_ratio")
MIB = 2**20


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def model_of(options):
    torch.manual_seed(0)
    return nn.Sequential(*[nn.TransformerEncoderLayer(
        options.width, 4, 4 * options.width, dropout=0.0, batch_first=True)
        for _ in range(options.layers)])


def batch_of(options):
    torch.manual_seed(1)
    shape = options.batch, options.length, options.width
    return torch.randn(shape), torch.randn(shape)


class TorchPipeline:
    """The same face as lowtide.pipeline's."""

    def __init__(self, options, schedule, wrapped):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        whole, each = model_of(options), options.layers // ranks
        self.stage = nn.Sequential(*map(wrapped, whole[rank * each:(rank + 1) * each]))
        stage = PipelineStage(self.stage, rank, ranks, torch.device("cpu"))
        self.schedule = SCHEDULES[schedule](stage, options.micro_batches, nn.functional.mse_loss)
        self.is_first, self.is_last = rank == 0, rank == ranks - 1

    def parameters(self):
        return list(self.stage.parameters())

    def zero_grad(self):
        self.stage.zero_grad()

    def step(self, inputs, targets):
        given = (inputs,) if self.is_first else ()
        self.schedule.step(*given, target=targets if self.is_last else None,
                           losses=[] if self.is_last else None, return_outputs=False)


def planned(options, schedule, budget):
    each = options.layers // options.ranks
    return lowtide.pipeline(model_of(options), batch_of(options), budget, schedule=schedule,
                            loss_fn=nn.functional.mse_loss, micro_batches=options.micro_batches,
                            cuts=list(range(each, options.layers, each)), optimizer="sgd",
                            time_limit=options.planning_seconds, verbose=False)


def peak_of(pipe, batch):
    """With what exists before. Gradients are there as in the second step of a training."""
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    before = sum(value.nbytes for value in pipe.parameters())
    before += batch[0].nbytes * (rank == 0) + batch[1].nbytes * (rank == last)
    pipe.zero_grad()
    peak, _, _ = profiled(lambda: pipe.step(*batch))
    return before + peak


def seconds_of(pipe, batch):
    pipe.zero_grad()
    dist.barrier()
    begin = time.perf_counter()
    pipe.step(*batch)
    dist.barrier()
    return time.perf_counter() - begin


def measured(options, schedule):
    """By way: budget, this rank's peak, the median of its steps, and the plans' time."""
    batch = batch_of(options)
    pipes = {"torch": TorchPipeline(options, schedule, lambda block: block),
             "torch, checkpoints": TorchPipeline(options, schedule, Checkpointed)}
    peaks = {name: peak_of(pipe, batch) for name, pipe in pipes.items()}
    all_peaks = [None] * options.ranks
    dist.all_gather_object(all_peaks, peaks["torch"])
    budgets = dict.fromkeys(pipes)
    predicted = dict.fromkeys(pipes)
    whole = None
    for share in (None, *options.shares):
        name = "lowtide" if share is None else f"lowtide, {share:.0%}"
        budgets[name] = None if share is None else int(share * max(all_peaks))
        try:
            pipes[name] = planned(options, schedule, budgets[name])
        except lowtide.InfeasibleError as error:
            if dist.get_rank() == 0:
                print(f"{schedule}: {error}")
            continue
        whole = whole or pipes[name].predicted.seconds
        predicted[name] = pipes[name].predicted.seconds / whole
        peaks[name] = peak_of(pipes[name], batch)
    times = {name: [] for name in pipes}
    for _ in range(options.steps):
        for name, pipe in pipes.items():
            times[name].append(seconds_of(pipe, batch))
    return {name: (budgets[name], peaks[name], statistics.median(times[name]), predicted[name])
            for name in pipes}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--shares", type=float, nargs="*", default=[0.75, 0.55])
    parser.add_argument("--schedules", nargs="*", default=["1f1b", "gpipe"])
    parser.add_argument("--planning-seconds", type=float, default=12.0)
    options = parser.parse_args()
    table = Table("pipeline", COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        for schedule in options.schedules:
            found = run_ranks(measured, options.ranks, folder, options, schedule, seconds=540)
            for rank, by_way in enumerate(found):
                for name, (budget, peak, seconds, predicted) in by_way.items():
                    plain = by_way["torch"]
                    table.add(schedule, name, rank, budget and f"{budget / MIB:.1f}",
                              f"{peak / MIB:.1f}", f"{peak / plain[1]:.2f}",
                              f"{1e3 * seconds:.1f}", f"{seconds / plain[2]:.2f}",
                              predicted and f"{predicted:.2f}")
    table.close()


if __name__ == "__main__":
    main()
