"""Times of collectives on the present ranks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist

from .process_group import all_gather_single, reduce_scatter_single

_FLOAT_BYTES = 4


def measured_times(group: dist.ProcessGroup, device: torch.device, sizes: Sequence[int],
                   repeats: int) -> dict[str, list[tuple[int, float]]]:
    """By collective, pairs of the bytes of the whole tensor and the median of the seconds until the
    last rank has the result; the same on each rank. Sizes are rounded up to whole pieces."""
    found: dict[str, list[tuple[int, float]]] = {}
    for size in sizes:
        ranks = dist.get_world_size(group)
        piece = torch.zeros(-(-size // (_FLOAT_BYTES * ranks)), device=device)
        whole = piece.new_zeros(len(piece) * ranks)
        for name, call in _calls(group, piece, whole).items():
            seconds = _seconds_of_last(call, group, device, repeats)
            found.setdefault(name, []).append((len(whole) * _FLOAT_BYTES, seconds))
    return found


def _calls(group: dist.ProcessGroup, piece: torch.Tensor,
           whole: torch.Tensor) -> dict[str, Callable[[], object]]:
    return {
        "allreduce": lambda: dist.all_reduce(whole, group=group),
        "reduce_scatter": lambda: reduce_scatter_single(piece, whole, group=group),
        "allgather": lambda: all_gather_single(whole, piece, group=group),
        "broadcast": lambda: dist.broadcast(whole, group=group, group_src=0),
    }


def _seconds_of_last(call: Callable[[], object], group: dist.ProcessGroup, device: torch.device,
                     repeats: int) -> float:
    """A median over the repeats, of the longest time over the ranks; the first call, in which
    connections are made, does not count."""
    times = torch.tensor([_seconds(call, group, device) for _ in range(repeats + 1)],
                         dtype=torch.float64, device=device)
    dist.all_reduce(times, dist.ReduceOp.MAX, group=group)
    return statistics.median(times[1:].tolist())


def _seconds(call: Callable[[], object], group: dist.ProcessGroup, device: torch.device) -> float:
    dist.barrier(group)  # all begin at about the same time
    _finish(device)
    begin = time.perf_counter()
    call()
    _finish(device)
    return time.perf_counter() - begin


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
