"""Processes of one process group for tests, which end for certain."""

import contextlib
import datetime
import os
import pathlib
import signal
import subprocess
import time
import traceback

import torch
import torch.distributed as dist
from forked import process

#: Seconds for a collective to come about, and for all processes to end.
_COLLECTIVE, _ALL = 60, 240


def run_ranks(function, ranks, folder, *arguments, seconds=_ALL):
    """By rank, what ``function(*arguments)`` returns in a process of its own with a process group.
    AssertionError with the traceback of one that fails; whatever happens, none is left behind."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"store{time.monotonic_ns()}"
    given = store.with_name(f"{store.name}.given")
    torch.save(arguments, given)  # or the processes would have the same tensors
    started = [process(_run, function, rank, ranks, store, daemon=True) for rank in range(ranks)]
    try:
        for one in started:
            one.start()
        deadline = time.monotonic() + seconds
        while any(one.is_alive() for one in started):
            _refuse_failure(started, store)
            assert time.monotonic() < deadline, f"{ranks} ranks took longer than {seconds} s"
            time.sleep(0.02)
        _refuse_failure(started, store)
        return [torch.load(_result(store, rank), weights_only=False) for rank in range(ranks)]
    finally:
        for one in started:
            if one.pid is not None:
                one.kill()
                one.join()


def printed_by(command, seconds=_ALL):
    """What a program prints that starts processes of its own, which end with it for certain."""
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)
    try:
        printed, complaints = started.communicate(timeout=seconds)
        assert started.returncode == 0, complaints
        return printed
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.communicate()


def _refuse_failure(started, store):
    for rank, one in enumerate(started):
        if one.exitcode not in (None, 0):
            text = _failure(store, rank)
            known = text.read_text() if text.exists() else f"exit code {one.exitcode}"
            raise AssertionError(f"rank {rank} failed:\n{known}")


def _result(store, rank):
    return store.with_name(f"{store.name}.result{rank}")


def _failure(store, rank):
    return store.with_name(f"{store.name}.failure{rank}")


def _run(function, rank, ranks, store):
    signal.alarm(2 * _ALL)  # should the parent be killed
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                                timeout=datetime.timedelta(seconds=_COLLECTIVE))
        arguments = torch.load(store.with_name(f"{store.name}.given"), weights_only=False)
        torch.save(function(*arguments), _result(store, rank))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException:
        _failure(store, rank).write_text(traceback.format_exc())
        raise
