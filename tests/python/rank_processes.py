"""Real processes as the ranks of a training, which are gone when a test ends."""

import contextlib
import ctypes
import dataclasses
import multiprocessing.connection
import os
import signal
import time
import traceback

import torch.distributed as dist
from forked import CONTEXT, process

_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)


@dataclasses.dataclass
class RankOutcome:
    """``value``: of the program; ``error``: class and message of its exception; ``printed``: to the
    standard error; ``seconds`` until it ended; ``exit``: as of multiprocessing."""

    value: object = None
    error: tuple[str, str] | None = None
    printed: str = ""
    seconds: float = 0.0
    exit: int | None = None


class RankProcesses:
    """Ranks that run ``program(*arguments)`` in torchrun's environment, whose store lives here, as
    it lives in torchrun's agent. ``agent=False``: it lives in rank 0, as without torchrun."""

    def __init__(self, folder, program, size, *arguments, agent=True):
        self._folder, self._begin = folder, time.monotonic()
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port = self._store.port
        if not agent:
            self._store = None  # the port is free again
        self._pipes, self.processes = [], []
        for rank in range(size):
            ours, theirs = CONTEXT.Pipe(duplex=False)
            environment = {
                "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "TORCHELASTIC_USE_AGENT_STORE": str(agent), "TORCHELASTIC_RESTART_COUNT": "0",
                "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
            started = process(_rank, theirs, os.fspath(folder / f"stderr-{rank}"), program,
                              arguments, **environment)
            started.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(started)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for started in self.processes:
            started.kill()  # a stopped process as well
        for started in self.processes:
            started.join()

    def signal(self, rank, number):
        os.kill(self.processes[rank].pid, number)

    def wait_for(self, name):
        """Until a rank has called ``said(name)``."""
        while not (self._folder / name).exists():
            assert any(started.is_alive() for started in self.processes), name
            time.sleep(0.01)

    def wait_for_a_failure(self, limit=120):
        """Until all ranks have ended, or one of them has failed and the others had a second."""
        running = {started.sentinel: started for started in self.processes}
        while running and time.monotonic() < self._begin + limit:
            for sentinel in multiprocessing.connection.wait(running, timeout=1):
                ended = running.pop(sentinel)
                ended.join()
                limit = limit if ended.exitcode == 0 else 1 + time.monotonic() - self._begin

    def outcomes(self, limit=60):
        """Of all ranks; those that run after ``limit`` seconds have no ``exit``."""
        found = [RankOutcome() for _ in self.processes]
        for rank, started in enumerate(self.processes):
            started.join(max(0.0, self._begin + limit - time.monotonic()))
            found[rank].exit = started.exitcode
            found[rank].printed = (self._folder / f"stderr-{rank}").read_text()
            with contextlib.suppress(EOFError):
                if self._pipes[rank].poll():
                    found[rank].value, found[rank].error, end = self._pipes[rank].recv()
                    found[rank].seconds = end - self._begin
        return found


def values_of_ranks(folder, program, size, *arguments):
    """What the program returned on each rank; fails with the traces of all ranks that raised, as
    one of them is the cause, and the others lost it."""
    with RankProcesses(folder, program, size, *arguments) as ranks:
        ranks.wait_for_a_failure()
        outcomes = ranks.outcomes(limit=0)
    failures = [f"rank {rank}: {outcome.exit} {outcome.error}\n{outcome.printed}"
                for rank, outcome in enumerate(outcomes) if outcome.exit != 0]
    assert not failures, "\n".join(failures)
    return [outcome.value for outcome in outcomes]


def said(folder, name):
    """Tells ``RankProcesses.wait_for`` that this place was reached."""
    (folder / name).touch()


def _rank(pipe, printed, program, arguments):
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    signal.alarm(300)
    file = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    import torch

    torch.set_num_threads(1)
    value = error = None
    try:
        value = program(*arguments)
    except BaseException as caught:
        traceback.print_exc()
        error = type(caught).__name__, str(caught)
    pipe.send((value, error, time.monotonic()))
    pipe.close()
    if error is not None:
        raise SystemExit(1)
