"""The process of these tests has a simulated device; other tests have processes of their own."""

import gc
import time

import pytest
import torch
from lowtide.pytorch import simulated

pytest.register_assert_rewrite("both_devices", "graph_cases")

BYTES = 256 << 20
SECONDS_TO_LET_GO = 10

simulated.install(bytes=BYTES, seed=1)


def pytest_collection_finish():
    """The modules that are loaded by now stay, so that no collection looks through them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def one_thread():
    """At the sizes of tests threads cost more than they give."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def own_cache(tmp_path_factory, monkeypatch):
    """Profiles and plans are shared by the tests of a run, and not with the user's; nothing that
    Dynamo traced before is used, nor its memory kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def nothing_left():
    """A test leaves no memory of the device behind.

    Where a backward pass failed, autograd's own thread lets go of it when the caller has the error
    already.
    """
    yield
    end = time.monotonic() + SECONDS_TO_LET_GO
    while held_memory() and time.monotonic() < end:
        time.sleep(0.01)
    assert held_memory() == 0


def held_memory():
    gc.collect()
    torch.simulated.synchronize()
    torch.simulated.empty_cache()
    return torch.simulated.memory_allocated()
