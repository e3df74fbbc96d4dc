"""The process group of a training: the one that there is, torchrun's, or one of a single rank."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from ... import InputError

#: By the names that PyTorch has for them since 2.13, or those before.
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

#: By their ranks and timeout: groups that were given back.
_unused: dict[tuple[tuple[int, ...], datetime.timedelta], list[dist.ProcessGroup]] = {}

_OF_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def open_default_group(device: torch.device, timeout: float | None) -> None:
    """Makes the default process group, with Gloo, and on GPUs NCCL beside it. ``timeout``:
    seconds after which a collective fails, None for PyTorch's.

    Raises InputError where the environment has some of torchrun's variables but not all."""
    limit = None if timeout is None else datetime.timedelta(seconds=timeout)
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    store, rank, size = (_launched_store() if _is_launched() else (dist.HashStore(), 0, 1))
    dist.init_process_group(backend, timeout=limit, store=store, rank=rank, world_size=size)


def take_group(ranks: Sequence[int], timeout: datetime.timedelta) -> dist.ProcessGroup:
    """A group of these ranks, with Gloo: one that was given back, or a new one. Called by all of
    them alone.

    None is destroyed: PyTorch names groups by how many there are, so that the next one would have
    the name of the destroyed one, and could read the addresses that this left in the store.
    """
    there = [group for group in _unused.get((tuple(ranks), timeout), [])
             if group in distributed_c10d._world.pg_map]
    if there:
        _unused[tuple(ranks), timeout] = there[1:]
        return there[0]
    return dist.new_group(list(ranks), timeout=timeout, backend="gloo",
                          use_local_synchronization=True)


def give_back(group: dist.ProcessGroup, timeout: datetime.timedelta) -> None:
    """A group of ``take_group``, with which all its ranks are done."""
    if group not in distributed_c10d._world.pg_map:  # all were destroyed meanwhile
        return
    _unused.setdefault((tuple(dist.get_process_group_ranks(group)), timeout), []).append(group)


def backends_of(group: dist.ProcessGroup) -> list:
    """PyTorch's backends of a group, one for each type of device."""
    return [group._get_backend(device) for device in group._device_types]


def calls_of(ranks: Sequence[int]) -> int:
    """How many collectives this process has begun in all process groups of exactly these ranks."""
    return sum(group._get_sequence_number_for_group()
               for group in list(distributed_c10d._world.pg_map)
               if dist.get_process_group_ranks(group) == ranks)


def chosen_device(device: str | torch.device | None) -> torch.device:
    """The device of this rank: the one that is asked for, the GPU of torchrun's LOCAL_RANK, or the
    CPU."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(device)
    if chosen.type not in ("cpu", "cuda"):
        raise InputError(f"device must be a CPU or a CUDA device, not {chosen}")
    if chosen.type == "cpu" or chosen.index is not None:
        return chosen
    local = _number("LOCAL_RANK", "0")
    if local >= torch.cuda.device_count():
        raise InputError(f"LOCAL_RANK is {local}, and this machine has {torch.cuda.device_count()} "
                         f"GPUs: start as many processes on it as it has GPUs, or set "
                         f'device="cpu"')
    return torch.device("cuda", local)


def _launched_store() -> tuple[dist.Store, int, int]:
    """With the rank and the number of ranks. torchrun keeps its store when it starts the ranks
    again, where the addresses of the ranks before must not be found."""
    store, rank, size = next(dist.rendezvous("env://"))
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"start-{start}", store), rank, size


def _is_launched() -> bool:
    there = [name for name in _OF_TORCHRUN if os.environ.get(name)]
    if not there:
        return False
    missing = [name for name in _OF_TORCHRUN if name not in there]
    if missing:
        raise InputError(f"the environment has {', '.join(there)} and lacks {', '.join(missing)}: "
                         f"start the program with torchrun, which sets all of them, or unset them")
    rank, size = _number("RANK"), _number("WORLD_SIZE")
    if not 0 <= rank < size:
        raise InputError(f"RANK is {rank} and WORLD_SIZE is {size}: ranks go from 0 to "
                         f"WORLD_SIZE - 1; torchrun sets both")
    return True


def _number(name: str, default: str | None = None) -> int:
    text = os.environ.get(name, default)
    if not text or not text.strip().isdecimal():
        raise InputError(f"the environment variable {name} must be a whole number, not {text!r}: "
                         f"torchrun sets it")
    return int(text)
