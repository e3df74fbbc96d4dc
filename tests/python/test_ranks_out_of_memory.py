"""The system refuses one rank memory at some request of a planned step: all ranks end, and say
which one it was."""

import ctypes
import resource

import lowtide
import pytest
import torch
from rank_processes import RankProcesses
from sweep import sweep
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

SIZE, BAD = 2, 1
TIMEOUT = 20.0  # of the watchdogs, longer than a rank measures or plans
LIMIT = 120  # of the tests, for the slowest machine
PAGE = resource.getpagesize()
M_MMAP_THRESHOLD = -3  # of mallopt(3)
STEPS = 6
#: With which no step can be made, as the square of the result takes 8 MiB, and with which all can.
LITTLE_MIB, MUCH_MIB = 4, 400

pytestmark = [pytest.mark.usefixtures("own_cache"),
              pytest.mark.cpu_only("it is the host's memory that is short")]


def leave(free_mib):
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * PAGE
    resource.setrlimit(resource.RLIMIT_AS, (taken + (free_mib << 20), resource.RLIM_INFINITY))


def training(free_mib, sharding):
    """From the fourth step on, the bad rank has so little memory left."""
    # Freed memory goes back to the system, so that it can be refused.
    assert ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 65536)
    comm = lowtide.Communicator.create()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(*(layer for _ in range(6) for layer in (
        nn.Linear(512, 512), nn.Dropout(0.1), nn.Tanh())))
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(4096, 512)
    model = lowtide.wrap(model, x, "80%", optimizer=optimizer, sharding=sharding, time_limit=0.3,
                         mesh=init_device_mesh("cpu", (comm.size,)), cache=False)
    with lowtide.Watchdog(comm, timeout=TIMEOUT, model=model):
        for step in range(STEPS):
            if step == 3 and comm.rank == BAD:
                leave(free_mib)
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return "done"


@pytest.mark.parametrize("free_mib", sweep([1, 4, 8, 12, 16, 24, 32, 48, 400], usual=[4]))
@pytest.mark.parametrize("sharding", sweep(["full", "none"], usual=["full"]))
def test_all_ranks_end_with_the_one_that_gets_no_memory(tmp_path, free_mib, sharding):
    with RankProcesses(tmp_path, training, SIZE, free_mib, sharding) as ranks:
        outcomes = ranks.outcomes(LIMIT)
    if free_mib >= MUCH_MIB:
        assert [outcome.value for outcome in outcomes] == ["done"] * SIZE
    elif any(outcome.value != "done" for outcome in outcomes) or free_mib <= LITTLE_MIB:
        assert outcomes[1 - BAD].error is not None, outcomes
        kind, text = outcomes[1 - BAD].error
        assert kind == "RankError" and text.startswith(f"rank {BAD} of {SIZE} failed: "), text
        assert "it ran out of memory" in text or "thread" in text, text
        assert outcomes[BAD].value is None
