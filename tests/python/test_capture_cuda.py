"""The step of a GPU, captured in a process whose PyTorch has none."""

import collections
import json
import os
import pathlib
import subprocess
import sys

import lowtide
import pytest
import torch
from sweep import sweep

pytestmark = pytest.mark.skipif(bool(torch.version.cuda or torch.version.hip),
                                reason="a PyTorch for GPUs captures there itself")

FOLDER = pathlib.Path(__file__).parent
ATTENTION = "aten::_scaled_dot_product_"


def captured(function, path, *arguments):
    """The graph of a function of cuda_models, as the command writes it."""
    done = command(function, path, *arguments)
    assert done.returncode == 0, done.stderr
    return lowtide.Graph.load(path)


def command(function, path, *arguments):
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(FOLDER), *filter(None, [environment.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "lowtide", "capture", f"cuda_models:{function}", "-o", str(path),
         *(arguments or ("--device", "cuda", "--like", "h100"))],
        capture_output=True, text=True, timeout=500, env=environment)


def types(graph):
    return collections.Counter(op.type for op in graph.ops)


def attention(graph):
    """The kernels of attention in a graph, forward ones."""
    names = [name.removeprefix(ATTENTION) for name in types(graph) if name.startswith(ATTENTION)]
    return {name for name in names if not name.endswith("_backward")}


@pytest.mark.parametrize(("function", "kernel"), sweep([
    ("encoder", "flash_attention"),
    ("gpt_block", "efficient_attention"),
    ("gpt_block_bf16", "flash_attention"),
    ("gpt_block_without_dropout", "cudnn_attention"),
    ("gpt2", "efficient_attention"),
    ("double_precision", None),
], usual=[("encoder", "flash_attention"), ("gpt2", "efficient_attention")]))
def test_attention_has_the_kernel_of_an_h100(function, kernel, tmp_path):
    graph = captured(function, tmp_path / "step.json")
    assert attention(graph) == ({kernel} if kernel else set())
    for op in graph.ops:
        if op.type.startswith(ATTENTION) and not op.type.endswith("_backward"):
            assert op.random
            assert f"{op.type}_backward" in types(graph)
            assert len(op.outputs) > 2  # logarithms of sums, and the state of the generator


@pytest.mark.parametrize("function", sweep([
    "convolutions", "norms", "lstm", "gru", "embedding"], usual=["convolutions", "gru"]))
def test_the_plan_of_a_budget_is_accepted(function, tmp_path):
    graph = captured(function, tmp_path / "step.json")
    assert graph.device == "like NVIDIA H100 SXM 80GB"
    for op in graph.ops:
        assert op.cost_estimated
        assert op.cost > 0 or op.type == "lowtide::boundary"
    found = lowtide.plan(graph, "80%", time_limit=0.3)
    if found.plan is None:
        found = lowtide.plan(graph, "100%", time_limit=0.3)
    found.plan.save(tmp_path / "plan.json")
    checker = FOLDER.parents[1] / "tools" / "check_plan.py"
    done = subprocess.run([sys.executable, checker, tmp_path / "step.json", tmp_path / "plan.json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_without_memory_gives_the_same_graph(tmp_path):
    graph = captured("convolutions", tmp_path / "a.json")
    without = captured("convolutions", tmp_path / "b.json", "--device", "cuda", "--like", "h100",
                       "--meta")
    assert json.loads(without.format()) == json.loads(graph.format())


def test_another_device_changes_costs_alone(tmp_path):
    h100 = json.loads(captured("convolutions", tmp_path / "a.json").format())
    l40s = json.loads(captured("convolutions", tmp_path / "b.json", "--device", "cuda", "--like",
                               "l40s").format())
    assert h100["tensors"] == l40s["tensors"]
    assert [op["type"] for op in h100["ops"]] == [op["type"] for op in l40s["ops"]]
    assert h100["device"] != l40s["device"]
    assert sum(op["cost"] for op in h100["ops"]) < sum(op["cost"] for op in l40s["ops"])


def test_a_gpu_must_be_named(tmp_path):
    done = command("convolutions", tmp_path / "a.json", "--device", "cuda")
    assert done.returncode == 2
    assert "--like" in done.stderr and "mi300x" in done.stderr


@pytest.mark.parametrize("function", ["pinned", "with_a_generator", "of_memory_statistics"])
def test_what_needs_the_gpu_itself_is_said_in_a_line(function, tmp_path):
    done = command(function, tmp_path / "step.json")
    assert done.returncode == 2
    line, = done.stderr.strip().splitlines()
    assert "cuda stands for a GPU that is not there" in line and "cuda_models.py:" in line


def test_what_is_no_single_graph_is_refused_without_a_warning(tmp_path):
    done = command("no_single_graph", tmp_path / "step.json")
    assert done.returncode == 2
    assert "cuda_models.py:" in done.stderr and "Data-dependent branching" in done.stderr
    assert "Warning" not in done.stderr


@pytest.mark.parametrize("arguments", [("--device", "cuda:99999", "--like", "h100"),
                                       ("--like", "h10"), ("--device", "cuda", "--like", "cpu"),
                                       ("--device", "gpu")])
def test_what_is_no_device_is_refused(arguments, tmp_path):
    done = command("convolutions", tmp_path / "a.json", *arguments)
    assert done.returncode == 2, done.stderr
    assert not (tmp_path / "a.json").exists()


def test_a_program_is_told_that_torch_is_there_already():
    with pytest.raises(lowtide.InputError, match="python -m lowtide capture"):
        lowtide.capture(torch.nn.Linear(2, 2), torch.ones(2, 2), device="cuda", like="h100")


def test_costs_like_a_device_need_no_device():
    model, x = torch.nn.Linear(64, 64), torch.ones(512, 64)
    plain = lowtide.capture(model, x)
    graph = lowtide.capture(model, x, like="a100")
    assert plain.device == "" and graph.device == "like NVIDIA A100 SXM 80GB"
    with pytest.raises(lowtide.InputError, match="Known are cpu, .*a100"):
        lowtide.capture(model, x, like="a10")
