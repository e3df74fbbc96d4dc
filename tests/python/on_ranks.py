"""Runs a function in several processes that train together over Gloo."""

import multiprocessing
import os
import pickle
import tempfile
import traceback
import warnings

import torch
import torch.distributed as dist

#: Seconds until processes that still run are ended.
TIMEOUT = 120


def run_on_ranks(function, ranks, *arguments, timeout=TIMEOUT):
    """By rank, what ``function(rank, *arguments)`` returns there, on a CPU with one thread. Raises
    AssertionError with the traceback where one raises, or runs too long. No process is left."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=_on_rank, daemon=True,
                                     args=(folder, rank, ranks, function, arguments))
                     for rank in range(ranks)]
        try:
            for process in processes:
                process.start()
            for process in processes:
                process.join(timeout)
            return [_result(folder, rank) for rank in range(ranks)]
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
                process.join()


def _on_rank(folder, rank, ranks, function, arguments):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    try:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank,
                                world_size=ranks)
        found = True, function(rank, *arguments)
    except BaseException:
        found = False, traceback.format_exc()
    with open(f"{folder}/{rank}.part", "wb") as file:
        pickle.dump(found, file)
    os.rename(file.name, f"{folder}/{rank}")
    os._exit(0)  # a rank that failed does not wait for the others


def _result(folder, rank):
    path = f"{folder}/{rank}"
    assert os.path.exists(path), f"rank {rank} did not end in time"
    with open(path, "rb") as file:
        done, value = pickle.load(file)
    assert done, f"rank {rank}:\n{value}"
    return value
