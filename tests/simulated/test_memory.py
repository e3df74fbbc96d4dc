"""The device's memory: only kernels touch it, it has a size, and it is counted."""

import ctypes
import gc
import subprocess
import sys

import pytest
import torch
from conftest import BYTES

TOUCH = """
import ctypes
import torch
from lowtide.pytorch import simulated
simulated.install(bytes=1 << 20)
x = torch.zeros(100, device="simulated")
assert x.cpu().sum() == 0
print("before", flush=True)
ctypes.c_float.from_address(x.data_ptr()).value
"""


def test_a_touch_by_the_host_is_a_fault():
    run = subprocess.run([sys.executable, "-c", TOUCH], capture_output=True, text=True)
    assert run.stdout == "before\n"
    assert run.returncode == -11, run.stderr


def test_out_of_memory_is_an_error_that_the_program_survives():
    held = torch.ones(BYTES // 16, device="simulated")
    with pytest.raises(torch.OutOfMemoryError, match="Tried to allocate 256 MiB.*of which 192 MiB"):
        torch.empty(BYTES // 4, device="simulated")
    with pytest.raises(torch.OutOfMemoryError):
        torch.cat([held, held, held, held])
    assert (held + 1)[-1].item() == 2
    assert torch.simulated.memory_stats()["num_ooms"] >= 2


def test_a_step_that_does_not_fit_leaves_nothing_behind():
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(4))).to("simulated")
    before = torch.simulated.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError):
        model(torch.ones(8192, 2048, device="simulated")).sum().backward()
    model.zero_grad()
    gc.collect()
    assert torch.simulated.memory_allocated() == before


def test_blocks_have_multiples_of_512_bytes():
    assert torch.simulated.memory_allocated() == 0
    x = torch.empty(1, device="simulated")
    y = torch.empty(129, device="simulated")
    assert torch.simulated.memory_allocated() == 512 + 1024
    assert x.data_ptr() % 512 == y.data_ptr() % 512 == 0


def test_peaks_and_scratch_are_counted():
    x = torch.ones(1 << 18, device="simulated")
    torch.simulated.reset_peak_memory_stats()
    x.sort()
    assert torch.simulated.memory_allocated() == 1 << 20
    assert torch.simulated.max_memory_allocated() >= 4 << 20  # with indices of 8 bytes
    free, total = torch.simulated.mem_get_info()
    assert (total, total - free) == (BYTES, 1 << 20)


def test_freed_memory_serves_again():
    first = torch.ones(1000, device="simulated")
    address = first.data_ptr()
    del first
    assert torch.ones(1000, device="simulated").data_ptr() == address


def test_a_recurrent_model_keeps_its_memory_on_the_device():
    model = torch.nn.LSTM(64, 64).to("simulated")
    before = torch.simulated.memory_allocated()
    y = model(torch.ones(100, 8, 64, device="simulated"))[0]
    assert torch.simulated.memory_allocated() - before > 2 * y.nbytes
    y.sum().backward()


def test_a_storage_is_resized():
    x = torch.arange(8.0, device="simulated")
    x.untyped_storage().resize_(0)
    assert torch.simulated.memory_allocated() == 0
    x.untyped_storage().resize_(32)
    assert x.fill_(3).sum().item() == 24


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(5, 3, sparse=True).to("simulated")
    with pytest.raises(NotImplementedError, match="dense"):
        table(torch.tensor([1], device="simulated")).sum().backward()


def test_memory_of_the_host_is_read_as_ever():
    x = torch.arange(3.0).pin_memory()
    assert x.is_pinned() and not torch.zeros(1).is_pinned()
    assert ctypes.c_float.from_address(x.data_ptr() + 8).value == 2
    assert x[1:].is_pinned()
