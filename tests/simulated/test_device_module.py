"""What PyTorch asks of a device module, and torch.accelerator."""

import io

import pytest
import torch

import lowtide
from lowtide.pytorch import simulated


def test_torch_accelerator():
    assert torch.accelerator.current_accelerator() == torch.device("simulated")
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(0)
    torch.accelerator.synchronize()
    assert torch.accelerator.current_stream() == torch.simulated.default_stream()
    x = torch.ones(300, device="simulated")
    assert torch.accelerator.memory_allocated() == 1536
    assert torch.accelerator.max_memory_allocated() >= 1536
    del x
    assert torch.accelerator.memory_allocated() == 0
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]


def test_tensors_and_modules_move():
    x = torch.ones(3).simulated()
    assert x.is_simulated and x.device == torch.device("simulated", 0)
    assert torch.nn.Linear(2, 2).simulated().weight.is_simulated
    with torch.device("simulated"):
        assert torch.zeros(2).is_simulated
    assert "device='simulated:0'" in repr(x)


def test_tensors_are_saved_and_loaded():
    x = torch.arange(5.0, device="simulated")
    file = io.BytesIO()
    torch.save({"x": x}, file)
    for place in ("simulated", "cpu"):
        file.seek(0)
        loaded = torch.load(file, map_location=place)["x"]
        assert loaded.device.type == place and loaded.cpu().tolist() == x.cpu().tolist()


def test_a_second_device_is_refused():
    with pytest.raises(lowtide.InputError, match="installed already"):
        simulated.install(bytes=1 << 20)
    with pytest.raises(lowtide.InputError, match="bytes is an int"):
        simulated.install(bytes="1GB")
    with pytest.raises(RuntimeError, match="one simulated device"):
        torch.ones(2, device="simulated:1")


def test_checkpointing_draws_the_same_numbers_again():
    def grads(checkpointed):
        torch.manual_seed(1)
        x = torch.ones(50, device="simulated", requires_grad=True)
        def body(y):
            return torch.nn.functional.dropout(y.sin(), 0.5).cos()
        y = (torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False) if checkpointed
             else body(x))
        torch.randn(3, device="simulated")
        y.sum().backward()
        return x.grad.cpu()

    assert torch.equal(grads(True), grads(False))


def test_a_data_loader_pins_its_batches():
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    for (batch,) in torch.utils.data.DataLoader(data, 4, pin_memory=True):
        assert batch.is_pinned()


def test_gradients_are_scaled():
    scaler = torch.amp.GradScaler("simulated", init_scale=4.0)
    w = torch.ones(3, device="simulated", requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler.scale((w * 2).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [-1.0] * 3
