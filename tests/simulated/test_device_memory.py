"""A plan that the device has no room for is refused before the first op."""

import lowtide
import pytest
import torch
from lowtide import _runtime
from torch import nn

DEVICE = "simulated"


def layers(count=8, width=512):
    return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Tanh())
                                 for _ in range(count))).to(DEVICE)


def test_the_message_names_all_and_nothing_ran():
    model, x = layers(), torch.ones(4096, 512, device=DEVICE)
    free, total = _runtime.device_memory(DEVICE)
    held = torch.empty(free - (48 << 20), dtype=torch.uint8, device=DEVICE)
    before = torch.simulated.memory_allocated()
    with pytest.raises(lowtide.InfeasibleError) as error:
        lowtide.wrap(model, x, budget="4GiB")
    message = str(error.value)
    for part in ("4GiB", DEVICE, lowtide.format_bytes(total), "outside", "Free"):
        assert part in message
    assert torch.simulated.memory_allocated() == before
    assert all(parameter.grad is None for parameter in model.parameters())
    del held
    lowtide.wrap(model, x, budget="4GiB")(x).sum().backward()


def test_a_budget_above_the_device_is_no_fault_when_the_plan_fits():
    model, x = layers(2), torch.ones(16, 512, device=DEVICE)
    planned = lowtide.wrap(model, x, budget=2 * _runtime.device_memory(DEVICE)[1])
    planned(x).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_free_memory_is_what_tensors_do_not_hold():
    free, total = _runtime.device_memory(DEVICE)
    held = torch.empty(1 << 20, dtype=torch.uint8, device=DEVICE)
    assert _runtime.device_memory(DEVICE) == (free - held.nbytes, total)


def test_a_step_without_memory_is_the_devices_error_and_later_ones_go_on():
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10)).to("simulated")
    x = torch.randn(32, 64).to("simulated")
    wrapped = lowtide.wrap(model, x, "100%", time_limit=0.3)
    wrapped(x).sum().backward()
    free, _ = torch.simulated.mem_get_info()
    taken = torch.empty(free - 20_000, dtype=torch.uint8, device="simulated")
    with pytest.raises(torch.OutOfMemoryError) as error:
        wrapped(x)
    assert "frame #" not in str(error.value)
    del taken, error
    wrapped(x).sum().backward()
    wrapped.zero_grad()
