"""What PyTorch asks of a device module, and torch.accelerator."""

import io
import subprocess
import sys

import lowtide
import pytest
import torch
from lowtide.pytorch import simulated
from torch._dispatch.python import enable_python_dispatcher
from torch.fx.experimental.proxy_tensor import make_fx


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


TOO_LATE = """
import torch
import lowtide
from lowtide.pytorch import simulated
torch.ones(3, requires_grad=True).sum().backward()
try:
    simulated.install(bytes=1 << 20)
except lowtide.InputError as error:
    print(error)
"""


def test_a_device_after_the_first_backward_pass_is_refused():
    run = subprocess.run([sys.executable, "-c", TOO_LATE], capture_output=True, text=True)
    assert "before the first backward pass" in run.stdout, run.stderr


def test_a_second_device_is_refused():
    with pytest.raises(lowtide.InputError, match="installed already"):
        simulated.install(bytes=1 << 20)
    with pytest.raises(RuntimeError, match="one simulated device"):
        torch.ones(2, device="simulated:1")


@pytest.mark.parametrize("size", ["1GB", 1.5, True, 0, -1, 1 << 70, (1 << 63) - 1], ids=str)
def test_a_size_that_is_none_is_refused(size):
    with pytest.raises(lowtide.InputError, match="^bytes must be a whole number, at least 1 and"):
        simulated.install(bytes=size)


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


def test_a_graph_is_traced_and_compiled():
    def attention(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum()

    parts = [torch.randn(2, 3, 4, 8, device="simulated", requires_grad=True) for _ in range(3)]
    graph = make_fx(attention, tracing_mode="symbolic")(*parts)
    assert "_scaled_dot_product_flash_attention_for_cpu" in graph.code
    assert torch.equal(graph(*parts).cpu(), attention(*parts).cpu())
    compiled = torch.compile(attention, backend="aot_eager")
    assert torch.equal(compiled(*parts).cpu(), attention(*parts).cpu())
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU], ids=lambda kind: kind.__name__)
def test_recurrent_models_are_traced_as_other_ops(kind):
    model = kind(3, 4).to("simulated")
    x = torch.randn(5, 2, 3, device="simulated")
    with enable_python_dispatcher():
        graph = make_fx(lambda x: model(x)[0], tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    assert kind.__name__.lower() + ".input" not in graph.code
    torch.testing.assert_close(graph(x).cpu(), model(x)[0].cpu())
