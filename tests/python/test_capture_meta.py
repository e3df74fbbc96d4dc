"""Models on the device meta are captured as on the CPU."""

import json
import resource

import lowtide
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
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
    with torch.device("meta"):
        module = CASES[name][0]().train()
        inputs = tuple(torch.empty_like(x, device="meta", requires_grad=x.requires_grad)
                       for x in inputs)
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
    with torch.device("meta"):
        model, x = Large(), torch.zeros(4096, 1 << 15)
    graph = lowtide.capture(model, (x,))
    weights = 8 * 4 << 30
    assert weights < graph.resident_bytes < weights + 2**30
    found = lowtide.plan(graph, "100%", "keep-all")
    assert found.plan.peak_bytes > 2 * weights
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 2**30


def test_the_model_stays_as_it_is_and_inputs_may_have_memory():
    with torch.device("meta"):
        model = nn.Linear(3, 4).to(torch.float64)
    before = dict(model.named_parameters())
    graph = lowtide.capture(model, torch.randn(2, 3, dtype=torch.float64))
    assert all(before[name] is p and p.is_meta for name, p in model.named_parameters())
    assert [8 * 3 * 4, 8 * 4] == [t.bytes for t in graph.tensors if t.role == "parameter"]


class Locked(nn.Linear):
    def __deepcopy__(self, memo):
        raise RuntimeError("one of a kind")


def test_what_cannot_be_copied_is_refused():
    with torch.device("meta"):
        model = Locked(3, 4)
    with pytest.raises(lowtide.InputError, match="(?s)Locked.*meta.*one of a kind.*on the device"):
        lowtide.capture(model, torch.randn(2, 3))


def test_the_command_makes_the_model_so(tmp_path, monkeypatch, capsys):
    (tmp_path / "huge.py").write_text(
        "import torch\n\ndef make():\n"
        "    return torch.nn.Linear(1 << 18, 1 << 18), torch.zeros(1, 1 << 18)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["capture", "huge:make", "--meta", "-o", "g.json"]) == 0
    assert "256 GiB held throughout" in capsys.readouterr().out
