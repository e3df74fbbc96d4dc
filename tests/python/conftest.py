"""Surroundings that several test files share."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
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
def one_compiling_process():
    """Inductor compiles in this process, and nothing that Dynamo traced before is used."""
    import torch
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch(compile_threads=1):
        yield
