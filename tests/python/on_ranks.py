"""Two or four processes that train together over Gloo, and run what tests ask them to."""

import contextlib
import gc
import os
import tempfile
import traceback
import warnings

import torch
import torch.distributed as dist
from forked import CONTEXT, process

#: Seconds that one call may take, until the processes are ended.
TIMEOUT = 150


class Ranks:
    """So many processes, which start with the first call; they are ended by ``close``, when a call
    fails, and when the process that made them ends."""

    def __init__(self, number):
        self.number = number
        self._folder = None
        self._processes, self._pipes = [], []

    def run(self, function, *arguments, timeout=TIMEOUT):
        """By rank, what ``function(rank, *arguments)`` returns there. Raises AssertionError, with
        the traceback, where one raises or does not return in time."""
        if not self._processes:
            self._start()
        try:
            for pipe in self._pipes:
                pipe.send((function, arguments))
            return [_received(rank, pipe, timeout) for rank, pipe in enumerate(self._pipes)]
        except BaseException:
            self.close()
            raise

    def forget(self):
        """What Dynamo traced, and learnt about sizes."""
        if self._processes:
            self.run(_forget)

    def close(self):
        for started in self._processes:
            started.kill()
            started.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self):
        self._folder = tempfile.TemporaryDirectory()
        for rank in range(self.number):
            here, there = CONTEXT.Pipe()
            started = process(_serve, rank, self.number, f"{self._folder.name}/store", there,
                              daemon=True)
            started.start()
            there.close()
            self._processes.append(started)
            self._pipes.append(here)


def _forget(_):
    torch._dynamo.reset()
    gc.collect()


def _received(rank, pipe, timeout):
    assert pipe.poll(timeout), f"rank {rank} did not answer in {timeout} s"
    try:
        done, value = pipe.recv()
    except EOFError:
        raise AssertionError(f"rank {rank} ended") from None
    assert done, f"rank {rank}:\n{value}"
    return value


def _serve(rank, number, store, pipe):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=number)
    with contextlib.suppress(EOFError):  # the tests are over
        while True:
            function, arguments = pipe.recv()
            try:
                pipe.send((True, function(rank, *arguments)))
            except Exception:
                pipe.send((False, traceback.format_exc()))
    os._exit(0)
