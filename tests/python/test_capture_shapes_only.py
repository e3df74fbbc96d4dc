"""Steps are captured of models that have no memory."""

import json
import resource

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import lowtide
from capture_cases import CASES, build
from lowtide.__main__ import main

pytestmark = pytest.mark.usefixtures("one_thread")


def document(graph, path):
    graph.save(path)
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", [
    "convolution and batch norm", "tied weights", "an input that needs a gradient", "autocast",
    "random numbers", "gpt", "lstm"])
def test_the_graph_is_that_of_the_model_with_memory(name, tmp_path):
    module, inputs = build(name)
    graph = lowtide.capture(module, inputs)
    with lowtide.shapes_only():
        module = CASES[name][0]().train()
        inputs = tuple(torch.zeros_like(x, requires_grad=x.requires_grad) for x in inputs)
    again = lowtide.capture(module, inputs)
    assert document(again, tmp_path / "b.json") == document(graph, tmp_path / "a.json")


class Large(nn.Module):
    """A row of layers whose weights and gradients take 64 GiB."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1 << 15, 1 << 15, bias=False) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return x.sum()


def test_a_model_that_the_machine_cannot_hold_is_captured_and_planned():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with lowtide.shapes_only():
        model, x = Large(), torch.zeros(4096, 1 << 15)
    graph = lowtide.capture(model, (x,))
    weights = 8 * 4 << 30
    assert weights < graph.resident_bytes < weights + 2**30
    found = lowtide.plan(graph, "100%", "keep-all")
    assert found.plan.peak_bytes > 2 * weights
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 2**30


def test_the_device_meta_is_refused():
    with torch.device("meta"):
        model, x = nn.Linear(3, 4), torch.zeros(2, 3)
    for arguments in ((model, (x,)), (model, (torch.zeros(2, 3),)), (torch.sum, (x,))):
        with pytest.raises(lowtide.InputError, match="shapes_only"):
            lowtide.capture(*arguments)


def test_the_command_makes_the_model_so(tmp_path, monkeypatch, capsys):
    (tmp_path / "huge.py").write_text(
        "import torch\n\ndef make():\n"
        "    return torch.nn.Linear(1 << 18, 1 << 18), torch.zeros(1, 1 << 18)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["capture", "huge:make", "--shapes-only", "-o", "g.json"]) == 0
    assert "256 GiB held throughout" in capsys.readouterr().out
