"""Training on several ranks: peak of each rank and time of a step, of DDP, FSDP2 and Lowtide.

All run on this machine in the same minutes, one after the other, on the same model and batches, in
processes with one thread each that talk over Gloo. The peak is what PyTorch's allocator handed out
as its profiler saw it, all threads included, with the parameters and the optimizer's state. Lowtide
runs with copies, with shards, and within the bytes that the others took, and less; and, as
"lowtide apart", without coalesced messages.
"""

import argparse
import gc
import pathlib
import statistics
import sys
import time

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
import lowtide  # noqa: E402
import torch_models  # noqa: E402
from on_ranks import Ranks  # noqa: E402
from torch_memory import profiled  # noqa: E402
from torch_models import WithLoss  # noqa: E402

from report import Table  # noqa: E402

COLUMNS = ("model", "ranks", "way", "budget_mib", "peak_mib", "seconds", "peak_ratio",
           "time_ratio", "loss_difference", "predicted_peak_mib", "predicted_peak_ratio",
           "passes_seconds", "predicted_seconds", "predicted_time_ratio")
MIB = 2**20
WARM_STEPS, TIMED_STEPS = 2, 5


def made(name, small):
    """A model with its loss; the blocks that FSDP2 shards; and what makes a batch."""
    torch.manual_seed(0)
    if name == "gpt":
        layers, width = (4, 128) if small else (8, 256)
        net = torch_models.build("gpt", layers=layers, width=width, heads=4, sequence=128,
                                 vocabulary=1024, dropout=0.0)
        def batch(generator):
            return tuple(torch.randint(0, 1024, (2, 4, 128), generator=generator))
        blocks = [module for module in net.modules() if type(module).__name__ == "Block"]
    else:
        net = torch_models.build("resnet50")
        size = 64 if small else 128
        def batch(generator):
            return (torch.randn(4, 3, size, size, generator=generator),
                    torch.randint(0, 1000, (4,), generator=generator))
        blocks = [module for module in net.modules() if type(module).__name__ == "Bottleneck"]
    assert blocks, f"no blocks in {name}"
    return WithLoss(net), blocks, batch


def run(rank, name, small, ranks, way, budget):
    """Peak in bytes, seconds of a step and of its two passes, losses; of Lowtide also the peak and
    the seconds of both passes that its plan predicts."""
    model, blocks, batch = made(name, small)
    mesh = init_device_mesh("cpu", (ranks,))
    generator = torch.Generator().manual_seed(rank)
    batches = [batch(generator) for _ in range(WARM_STEPS + TIMED_STEPS + 1)]
    if way.endswith("checkpoint"):
        for block in blocks:
            block.forward = _checkpointed(block.forward)
    if way.startswith("fsdp"):
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if way.startswith("ddp"):
        model = DistributedDataParallel(model)
    elif way.startswith("lowtide"):
        sharding = {"lowtide copies": "none", "lowtide shards": "full"}.get(way)
        model = lowtide.wrap(model, batches[0], budget=budget, optimizer=optimizer, mesh=mesh,
                             sharding=sharding, coalesce=way != "lowtide apart", verbose=False,
                             time_limit=10)
    losses, seconds, passes = [], [], []

    def step(given):
        begun = time.perf_counter()
        loss = model(*given)
        loss.backward()
        passes.append(time.perf_counter() - begun)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begun)
        losses.append(loss.item())

    for given in batches[:-1]:
        step(given)
    timed, of_passes = (statistics.median(some[WARM_STEPS:]) for some in (seconds, passes))
    predicted = None
    if way.startswith("lowtide"):
        session = lowtide.pytorch.wrap.session_of(model)
        predicted = lowtide.memory(model).planned_peak, session.figures.predicted().seconds
        session.release()
    gc.collect()
    held = sum(map(_bytes, [*model.parameters(), *model.buffers()])) + sum(
        _bytes(value) for state in optimizer.state.values() for value in state.values()
        if isinstance(value, torch.Tensor))
    peak, _, _ = profiled(lambda: step(batches[-1]))
    return peak + held, timed, of_passes, losses, predicted


def _checkpointed(forward):
    return lambda *given: checkpoint(forward, *given, use_reentrant=False)


def _bytes(tensor):
    return getattr(tensor, "_local_tensor", tensor).nbytes


def measured(arguments, name, ranks, way, budget=None):
    group = Ranks(ranks)
    try:
        found = group.run(run, name, arguments.small, ranks, way, budget, timeout=900)
    finally:
        group.close()
    peaks, seconds, passes, losses, predicted = zip(*found)
    return max(peaks), max(seconds), max(passes), losses, predicted[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=("gpt", "resnet50"))
    parser.add_argument("--ranks", nargs="+", type=int, default=(2, 4))
    parser.add_argument("--small", action="store_true", help="smaller models and pictures")
    arguments = parser.parse_args()
    table = Table("distributed", COLUMNS, key=4)
    try:
        for name in arguments.models:
            for ranks in arguments.ranks:
                _compare(table, arguments, name, ranks)
    finally:  # what was measured stays, whatever ends it
        table.close()


def _compare(table, arguments, name, ranks):
    base = measured(arguments, name, ranks, "ddp")
    peaks = {}

    def add(way, budget=None):
        try:
            peak, seconds, passes, losses, predicted = (
                base if way == "ddp" else measured(arguments, name, ranks, way, budget))
        except AssertionError as error:
            if "InfeasibleError" not in str(error):
                raise
            table.add(name, ranks, way, budget / MIB, "", "no plan", *[""] * 8)
            return
        peaks[way] = peak
        difference = max(abs(loss - other) for mine, theirs in zip(losses, base[3])
                         for loss, other in zip(mine, theirs))
        of_plan = ["", "", passes, "", ""] if predicted is None else [
            predicted[0] / MIB, predicted[0] / peak, passes, predicted[1], predicted[1] / passes]
        table.add(name, ranks, way, "" if budget is None else budget / MIB, peak / MIB, seconds,
                  peak / base[0], seconds / base[1], difference, *of_plan)

    for way in ("ddp", "ddp checkpoint", "fsdp", "fsdp checkpoint", "lowtide copies",
                "lowtide shards"):
        add(way)
    for way, share in (("fsdp", 1.0), ("fsdp checkpoint", 1.0), ("fsdp checkpoint", 0.85)):
        add("lowtide", int(share * peaks[way]))
    add("lowtide apart", int(peaks["fsdp checkpoint"]))


if __name__ == "__main__":
    main()
