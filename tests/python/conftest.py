"""Surroundings that several test files share."""

import gc
import os

import pytest
from on_device import DEVICE


def pytest_configure():
    if DEVICE == "cpu":
        return
    if DEVICE.startswith("cuda"):
        # Two eager runs give the same bits only so.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    if DEVICE == "simulated":
        from lowtide.pytorch import simulated

        simulated.install(4 << 30)
    if DEVICE.startswith("cuda"):
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
        torch.backends.cudnn.allow_tf32 = False  # cuDNN's recurrent layers are compared by rounding
    torch.set_default_device(DEVICE)


def pytest_itemcollected(item):
    if DEVICE == "simulated" and item.path.name.startswith("test_inductor_"):
        item.add_marker(pytest.mark.cpu_only("Inductor generates no code for this device"))


def pytest_runtest_setup(item):
    mark = item.get_closest_marker("cpu_only")
    if mark is not None and DEVICE != "cpu":
        pytest.skip(f"on the CPU only: {mark.args[0]}")


def pytest_collection_finish():
    """The modules that are loaded by now stay. A full collection, which many tests ask for, need
    not look through them: that takes longer than most of these tests do."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def cache_of_this_run(tmp_path_factory):
    """What was measured and planned before, on a busy machine or by another version, is not used,
    and nothing is left for the user."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(run / "cache of the run"))
        yield


@pytest.fixture(scope="session")
def untimed_guards():
    """Dynamo times the guards of all that it traces, and empties the processor's caches before."""
    from torch._dynamo import guards

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards, "profile_guard_manager", lambda *_: 0.0, raising=False)
        yield


@pytest.fixture(scope="module")
def one_thread(untimed_guards):
    """At the sizes of tests threads cost more than they give."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def own_cache(tmp_path_factory, monkeypatch):
    """Profiles and plans are shared by the tests of a run, and not with the user's; nothing that
    Dynamo traced before is used."""
    import torch

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    torch._dynamo.reset()


@pytest.fixture
def costs_of_a_data_sheet(monkeypatch):
    """Ops cost what a data sheet says, so that no time of this machine decides."""
    from lowtide import _core
    from lowtide.pytorch.plans import planning

    profiled = planning._profiled

    def priced_by_rooflines(*arguments):
        measured = profiled(*arguments)
        return _core.estimated(measured, [None] * len(measured.ops))

    monkeypatch.setattr(planning, "_profiled", priced_by_rooflines)


@pytest.fixture
def one_compiling_process():
    """Inductor compiles in this process, and nothing that Dynamo traced before is used."""
    import torch
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch(compile_threads=1):
        yield


@pytest.fixture(scope="session")
def two_of_the_run():
    """Two processes that train together. They last, as they measure collectives and load what
    tracing needs before they first train."""
    from on_ranks import Ranks

    ranks = Ranks(2)
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def two(two_of_the_run):
    """These, without what was traced for the tests of other files."""
    two_of_the_run.forget()
    return two_of_the_run


@pytest.fixture(scope="module")
def four():
    """Four of them."""
    from on_ranks import Ranks

    ranks = Ranks(4)
    yield ranks
    ranks.close()
