"""lowtide.capture: a model in, a graph out, nothing changed."""

import copy
import dataclasses
import json
import subprocess
import sys

import lowtide
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_models
from lowtide.__main__ import main
from lowtide.pytorch.capture import BOUNDARY, capture
from sweep import sweep

pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)
        self.frozen = nn.Parameter(torch.ones(5), requires_grad=False)

    def forward(self, image, label=None):
        x = F.dropout(self.norm(self.conv(image)).relu(), 0.5, self.training)
        logits = self.head(x.mean((2, 3))) * self.frozen
        return logits if label is None else F.cross_entropy(logits, label)


IMAGE, LABEL = torch.randn(2, 3, 8, 8), torch.tensor([1, 3])


def roles(graph):
    """Names of the residents by role."""
    residents = {}
    for tensor in graph.tensors:
        if tensor.kind == "resident":
            residents.setdefault(tensor.role, set()).add(tensor.name)
    return residents


def test_residents_have_the_names_of_the_module():
    graph = capture(Net(), (IMAGE, LABEL))
    assert graph.name == "Net"
    assert roles(graph) == {
        "parameter": {"conv.weight", "conv.bias", "norm.weight", "norm.bias", "head.weight",
                      "head.bias"},
        "buffer": {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "frozen"},
        "input": {"image", "label"},
    }
    trained = [graph.tensors[tensor.gradient_of].name for tensor in graph.tensors
               if tensor.role == "gradient"]
    assert sorted(trained) == sorted(roles(graph)["parameter"])


def test_nothing_changes():
    module = Net()
    module.head.weight.grad = torch.ones_like(module.head.weight)
    before = copy.deepcopy(module.state_dict())
    generator = torch.get_rng_state()
    image = IMAGE.clone()
    capture(module, (image, LABEL))
    assert torch.equal(torch.get_rng_state(), generator)
    assert torch.equal(image, IMAGE)
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    assert torch.equal(module.head.weight.grad, torch.ones_like(module.head.weight))
    assert module.conv.weight.grad is None and module.training


@pytest.mark.parametrize("inputs", [
    (IMAGE, LABEL), [IMAGE, LABEL], {"image": IMAGE, "label": LABEL}])
def test_inputs_by_position_or_name(inputs):
    assert roles(capture(Net(), inputs))["input"] == {"image", "label"}


def test_one_tensor_is_the_only_input():
    assert roles(capture(Net(), IMAGE))["input"] == {"image"}


def test_a_function_is_captured():
    def step(w, x):
        return (x @ w).tanh().sum()

    graph = capture(step, (torch.randn(3, 3, requires_grad=True), torch.randn(2, 3)), name="line")
    assert graph.name == "line"
    assert roles(graph)["input"] == {"w", "x"}


def test_a_compiled_module_is_captured_as_what_it_wraps():
    module = Net().eval()
    assert capture(torch.compile(module), IMAGE).format() == capture(module, IMAGE).format()


def test_the_mode_of_the_module_counts():
    training, evaluating = capture(Net(), IMAGE), capture(Net().eval(), IMAGE)
    assert "aten::native_dropout" in {op.type for op in training.ops}
    assert "aten::native_dropout" not in {op.type for op in evaluating.ops}
    assert not any(op.mutates for op in evaluating.ops)


def test_it_is_saved(tmp_path):
    graph = capture(Net(), IMAGE, path=tmp_path / "net.json")
    assert lowtide.Graph.load(tmp_path / "net.json").format() == graph.format()


@dataclasses.dataclass
class Scores:
    logits: torch.Tensor
    count: int
    extra: object = None


class Wrapped(Net):
    def forward(self, image):
        logits = super().forward(image)
        return Scores(logits, 3), {"none": None, "square": logits.square()}


def test_outputs_may_be_structures():
    graph = capture(Wrapped(), IMAGE)
    boundary, = (op for op in graph.ops if op.type == BOUNDARY)
    assert len(boundary.outputs) == 2  # one tangent for each tensor that needs a gradient


class Talking(Net):
    def forward(self, image):
        print("a batch of", len(image))
        return super().forward(image)


def test_what_is_printed_is_left_out(capsys):
    capture(Talking(), IMAGE)
    assert capsys.readouterr().out == ""


def test_recurrent_layers_are_traced_through():
    graph = capture(nn.GRU(3, 4, num_layers=2, dropout=0.2), torch.randn(5, 2, 3))
    assert len([tensor for tensor in graph.tensors if tensor.role == "gradient"]) == 8


FAMILIES = {
    "mlp": (dict(image=6, classes=5, layers=3, width=7, dropout=0.2), (4, 6, 6)),
    "vgg16": (dict(classes=5, width=16), (1, 3, 32, 32)),
    "resnet18": (dict(classes=5), (2, 3, 32, 32)),
    "mobilenet": (dict(classes=5), (2, 3, 32, 32)),
    "unet": (dict(classes=3, layers=2, width=4), (1, 3, 24, 24)),
    "segnet": (dict(classes=3), (1, 3, 32, 32)),
    "fcn8": (dict(classes=3, width=8), (1, 3, 32, 32)),
    "vit-small": (dict(image=32, classes=5, layers=1, width=12, heads=3), (2, 3, 32, 32)),
}


@pytest.mark.parametrize("name", sweep(FAMILIES, ["mlp", "resnet18", "unet", "vit-small"]))
def test_families_of_models_can_be_planned(name):
    sizes, shape = FAMILIES[name]
    module = torch_models.build(name, **sizes)
    images = torch.randn(shape)
    graph = capture(module, images)
    assert graph.executable
    assert all(op.cost > 0 and op.cost_estimated for op in graph.ops if op.type != BOUNDARY)
    trained = [tensor for tensor in graph.tensors if tensor.role == "gradient"]
    assert len(trained) == sum(p.requires_grad for p in module.parameters())
    found = lowtide.plan(graph, "98%", "chen-sqrt")
    assert found.plan is None or lowtide.verify(graph, found.plan) is None
    norms = [op for op in graph.ops if op.type.startswith("aten::native_batch_norm")
             and op.phase == "forward"]
    assert len(norms) == sum(isinstance(m, nn.BatchNorm2d) for m in module.modules())
    assert all(len(op.mutates) == 2 for op in norms)


class Branching(Net):
    def forward(self, image):
        if image.sum() > 0:
            image = image * 2
        logits = super().forward(image)
        if logits.sum() > 0:
            logits = logits * 2
        return logits


def test_breaks_are_named_with_their_lines():
    module = Branching()
    before = copy.deepcopy(module.state_dict())
    generator = torch.get_rng_state()
    with pytest.raises(lowtide.InputError) as caught:
        capture(module, IMAGE)
    message = str(caught.value)
    assert message.startswith("Branching cannot be captured as one graph.")
    assert "into 3 regions" in message or "into 2 regions" in message
    lines = [line for line in message.splitlines() if "test_capture_model.py" in line]
    assert len(lines) == 2 and all("Data-dependent" in line and "in forward" in line
                                   for line in lines)
    assert torch.equal(torch.get_rng_state(), generator)
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())


def eighths(x):
    return x.to(torch.float8_e4m3fn).to(torch.float32) + x


@pytest.mark.parametrize("function, inputs, said", [
    (eighths, torch.randn(8, requires_grad=True), "float8_e4m3fn.*test_capture_model.py.*x.to"),
    (Net(), torch.randn(2, 4, 8, 8),
     "cannot be traced with these example inputs.*test_capture_model.py.*channels"),
    (Net(), (IMAGE, LABEL, 1), "cannot be called with these example inputs"),
    (torch.square, torch.randn(3), "needs a gradient"),
    (lambda x: 3, torch.randn(3), "no op"),
])
def test_refusals(function, inputs, said):
    with pytest.raises(lowtide.InputError, match=f"(?s){said}"):
        capture(function, inputs)


# ---- python -m lowtide capture

def test_recurrent_layers_are_captured_without_a_warning(recwarn):
    capture(nn.LSTM(3, 4), torch.randn(5, 2, 3))
    assert [str(warned.message) for warned in recwarn] == []
    assert torch.backends.mkldnn.enabled


class Broadcasting(nn.Linear):
    def forward(self, x):
        return F.mse_loss(super().forward(x), torch.zeros(4))


def test_what_pytorch_warns_of_is_said_once(recwarn):
    """Its tracers run the model's code three times."""
    capture(Broadcasting(3, 4), torch.randn(2, 3))
    [warned] = recwarn
    assert "different to the input size" in str(warned.message)


MODULE = '''
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()), torch.randn(2, 3)

def fails():
    return 1 / 0

def half():
    return make()[0]

def misfit():
    return make()[0], torch.randn(2, 7)
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with my_module.py in it."""
    (tmp_path / "my_module.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    return tmp_path


def test_the_command_writes_a_graph(folder):
    command = [sys.executable, "-m", "lowtide", "capture", "my_module:make", "-o", "g.json"]
    result = subprocess.run([*command, "--name", "small"], text=True, capture_output=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("small: ")
    assert json.loads((folder / "g.json").read_text())["name"] == "small"
    assert lowtide.Graph.load(folder / "g.json").executable


@pytest.mark.parametrize("source, said", [
    ("my_module", "MODULE:FUNCTION"), ("my_module:gone", "no function gone"),
    ("other:make", "No module named 'other'"), ("my_module:fails", "ZeroDivisionError"),
    ("my_module:half", "must return (model, example inputs)"),
    ("my_module:misfit", "cannot be traced with these example inputs"),
])
def test_the_command_says_what_is_wrong(folder, capsys, source, said):
    assert main(["capture", source, "-o", "g.json"]) == 2
    assert said in capsys.readouterr().err
    assert not (folder / "g.json").exists()


def test_the_command_says_what_cannot_be_written(folder, capsys):
    assert main(["capture", "my_module:make", "-o", "no/folder/g.json"]) != 0
    assert "no/folder/g.json" in capsys.readouterr().err


def test_the_help_says_what_is_left_out(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["capture", "--help"])
    assert caught.value.code == 0
    assert "optimizer is not part" in capsys.readouterr().out


def test_ops_bear_the_names_of_their_modules():
    class Blocks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

        def forward(self, x):
            for block in self.blocks:
                x = torch.relu(block(x))
            return x.sum()

    graph = lowtide.capture(Blocks(), (torch.randn(3, 4),))
    names = [op.name for op in graph.ops if op.type == "aten::addmm"]
    assert names == ["blocks.0.addmm", "blocks.1.addmm_1"]
    assert any(op.name.startswith("relu") for op in graph.ops)
