"""Every model of the zoo against the same model written in PyTorch.

Both start from the same weights, see the same batches and draw the same random numbers; the graph
runs through torch.ops.aten. Logits, loss, each gradient, the statistics of batch normalization, and
the parameters after two steps must be equal to the last bit: the graph calls the kernels that
autograd calls, and torch.optim(fused=True) calls the kernels of its optimizer ops.
"""

import json
import subprocess

import pytest
import torch
import torch_models
from interpreter import Interpreter
from sweep import sweep
from zoo_training import LOWTIDE, assert_equal, build_module, draw_batch, state_of, write_graph

STEPS = 2

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=True),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.001, fused=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.001, weight_decay=0,
                                                  fused=True),
}

IMAGES = dict(batch=2, image=64, classes=10)
TOKENS = dict(batch=3, sequence=12, vocabulary=17)
TRANSFORMER = dict(TOKENS, layers=2, width=24, heads=4)
GPT3 = dict(TRANSFORMER, layers=1)

# Sizes that take about a second, some of them odd. Each model has an optimizer.
CASES = {
    "mlp": ("adam", dict(batch=5, image=9, classes=7, layers=4, width=11, dropout=0.3)),
    "vgg16": ("sgd", dict(IMAGES, width=64)),
    "vgg19": ("adamw", dict(IMAGES, image=100, width=48, dropout=0.2)),
    "resnet18": ("sgd", IMAGES),
    "resnet50": ("adam", dict(IMAGES, image=75)),
    "resnet152": ("sgd", IMAGES),
    "mobilenet": ("sgd", IMAGES),
    "mobilenetv2": ("adamw", IMAGES),
    "densenet121": ("adam", IMAGES),
    "inceptionv3": ("sgd", dict(IMAGES, image=299)),
    "unet": ("adamw", dict(batch=2, image=40, classes=3, layers=3, width=6)),
    "fcn8": ("sgd", dict(IMAGES, width=32)),
    "segnet": ("adam", dict(IMAGES, image=70)),
    "lstm": ("adamw", dict(TOKENS, layers=2, width=10)),
    "gpt": ("adamw", TRANSFORMER),
    "gpt3-small": ("sgd", dict(GPT3, dropout=0.0)),
    "gpt3-medium": ("adam", GPT3),
    "gpt3-large": ("adamw", GPT3),
    "gpt3-xl": ("sgd", GPT3),
    "gpt3-2.7b": ("adam", GPT3),
    "gpt3-6.7b": ("adamw", GPT3),
    "gpt3-13b": ("sgd", GPT3),
    "gpt3-175b": ("adam", GPT3),
    "vit-small": ("adamw", dict(IMAGES, layers=2, width=36, heads=3, dropout=0.1)),
    "vit-base": ("sgd", dict(IMAGES, layers=1, width=32, heads=4)),
}
# These small ones run with each optimizer.
WITH_ALL = ("mlp", "resnet18", "lstm", "gpt")
RUNS = [(name, optimizer) for name, (own, _) in CASES.items()
        for optimizer in (OPTIMIZERS if name in WITH_ALL else [own])]

# These take longest, and have a smaller relative among the others, or parts that others have too.
LONG = ("inceptionv3", "resnet152", "vgg19")

pytestmark = pytest.mark.usefixtures("one_thread")


def eager_step(module, optimizer, images, target, autocast=None, scaler=None, micro_batches=1):
    """One step in PyTorch: what there is to compare. The logits are of the first micro-batch."""
    optimizer.zero_grad()
    scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)
    outputs, losses = [], []
    for part in zip(images.chunk(micro_batches), target.chunk(micro_batches)):
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            outputs.append(module(part[0]))
            loss = torch_models.loss(outputs[-1], part[1])
            losses.append(loss / micro_batches if micro_batches > 1 else loss)
        scaler.scale(losses[-1]).backward()
    scaler.unscale_(optimizer)
    gradients = {name: p.grad.clone() for name, p in module.named_parameters()}
    scaler.step(optimizer)
    scaler.update()
    logits = outputs[0][0] if isinstance(outputs[0], tuple) else outputs[0]
    return {"logits": logits, "loss": sum(losses[1:], losses[0])}, gradients


def test_every_model_has_a_case():
    result = subprocess.run([LOWTIDE, "models", "--json"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    listed = {model["name"] for model in json.loads(result.stdout)["models"]}
    assert listed == CASES.keys() == torch_models.MODELS.keys()


def build_scaled_optimizer(optimizer_name, module):
    """Momentum of SGD is zeros: PyTorch's is uninitialized after a first step that is skipped."""
    optimizer = OPTIMIZERS[optimizer_name](module.parameters())
    if optimizer_name == "sgd":
        for parameter in module.parameters():
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def compare_steps(path, name, optimizer_name, sizes, autocast=None, scaler=None,
                  micro_batches=1):
    """Trains by the graph at ``path`` and in PyTorch; returns the graph's interpreter."""
    module = build_module(name, sizes)
    optimizer = (build_scaled_optimizer(optimizer_name, module) if scaler else
                 OPTIMIZERS[optimizer_name](module.parameters()))
    graph = Interpreter(path, state_of(module))
    assert graph.named("parameter", "buffer").keys() == state_of(module).keys()

    for step in range(STEPS):
        batch = draw_batch(graph, sizes.get("classes") or sizes["vocabulary"])
        torch.manual_seed(step)
        results, gradients = eager_step(module, optimizer, *batch, autocast, scaler,
                                        micro_batches)
        torch.manual_seed(step)
        graph.step()
        assert_equal({key: graph.value(key) for key in results}, results, f"step {step}, results")
        assert_equal(graph.gradients(), gradients, f"step {step}, gradients")
        assert_equal(graph.named("parameter", "buffer"), state_of(module), f"state after {step}")
    return graph


@pytest.mark.parametrize("name, optimizer_name", sweep(
    RUNS, usual=[run for run in RUNS if run[0] not in LONG]))
def test_training_equals_pytorch(name, optimizer_name, tmp_path):
    sizes = CASES[name][1]
    write_graph(tmp_path / "graph.json", name, optimizer_name, sizes)
    compare_steps(tmp_path / "graph.json", name, optimizer_name, sizes)


# Convolutions in half types take long without instructions for them.
SMALLER = {
    # For images smaller than its kernel of 7 x 7, oneDNN's bf16 gradient of fc6 has elements that
    # nothing wrote, on some processors.
    "fcn8": dict(batch=1, image=128, classes=5, width=8),
    "segnet": dict(batch=1, image=32, classes=5),
    "vgg16": dict(batch=1, image=32, classes=5, width=32),
    "vgg19": dict(batch=1, image=32, classes=5, width=32, dropout=0.2),
}
MIXED = [(name, precision) for name in CASES for precision in ("bf16", "fp16")]
# Those that take seconds; fp16 differs in the scaled loss alone.
USUALLY_MIXED = [(name, "bf16") for name in CASES
                 if name not in (*LONG, "vgg16", "resnet50", "fcn8")
                 and not name.startswith("gpt3")]


@pytest.mark.parametrize("name, precision", sweep(
    MIXED, usual=[*USUALLY_MIXED, ("mlp", "fp16"), ("gpt", "fp16")]))
def test_mixed_precision_equals_autocast(name, precision, tmp_path):
    optimizer_name, sizes = CASES[name]
    sizes = SMALLER.get(name, sizes)
    write_graph(tmp_path / "graph.json", name, optimizer_name, sizes, precision=precision)
    autocast, scaler = torch.bfloat16, None
    if precision == "fp16":
        autocast, scaler = torch.float16, torch.amp.GradScaler("cpu")
    graph = compare_steps(tmp_path / "graph.json", name, optimizer_name, sizes, autocast, scaler)
    if scaler:
        assert graph.value("scaler.scale") == scaler.get_scale()
        assert graph.value("scaler.growth_tracker") == scaler.state_dict()["_growth_tracker"]


# Normalization needs more than one value for each channel.
MICRO_BATCHES = [(name, count, precision) for name in CASES if name not in LONG
                 for count in (2, 3) for precision in ("f32", "fp16")]
USUAL_MICRO_BATCHES = [(name, 3, "f32") for name in (
    "mlp", "resnet18", "mobilenetv2", "unet", "lstm", "gpt", "vit-small")] + [("gpt", 2, "fp16")]


@pytest.mark.parametrize("name, count, precision", sweep(
    MICRO_BATCHES, usual=USUAL_MICRO_BATCHES))
def test_micro_batches_add_up_as_in_pytorch(name, count, precision, tmp_path):
    optimizer_name, sizes = CASES[name]
    sizes = SMALLER.get(name, sizes) if precision == "fp16" else sizes
    sizes = dict(sizes, batch=2 * count)
    write_graph(tmp_path / "graph.json", name, optimizer_name, sizes, micro_batches=count,
                precision=precision)
    mixed = precision == "fp16"
    compare_steps(tmp_path / "graph.json", name, optimizer_name, sizes,
                  torch.float16 if mixed else None, torch.amp.GradScaler("cpu") if mixed else None,
                  micro_batches=count)


def set_growth_tracker(graph, scaler, steps):
    graph.value("scaler.growth_tracker").fill_(steps)
    scaler._growth_tracker.fill_(steps)


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
def test_loss_scaling_equals_grad_scaler(optimizer_name, tmp_path):
    """From a scale that is too large for many steps, and with one step at which it grows."""
    sizes = dict(TRANSFORMER, layers=1, dropout=0.0)
    first = 2.0 ** 30
    write_graph(tmp_path / "graph.json", "gpt", optimizer_name, sizes, precision="fp16",
                loss_scale=first)
    module = build_module("gpt", sizes)
    optimizer = build_scaled_optimizer(optimizer_name, module)
    graph = Interpreter(tmp_path / "graph.json", state_of(module))
    scaler = torch.amp.GradScaler("cpu", init_scale=first)

    scales = []
    for step in range(30):
        batch = draw_batch(graph, sizes["vocabulary"])
        eager_step(module, optimizer, *batch, autocast=torch.float16, scaler=scaler)
        graph.step()
        assert_equal(graph.named("parameter"), state_of(module), f"state after {step}")
        scales.append(scaler.get_scale())
        assert graph.value("scaler.scale") == scales[-1]
        if step == 20:
            set_growth_tracker(graph, scaler, scaler.get_growth_interval() - 1)
    falls = sum(b < a for a, b in zip([first, *scales], scales))
    assert 5 < falls < 20
    assert scales[21] == 2 * scales[20]
