"""Ops on a device that works late are timed by its events."""

import json

import lowtide
import pytest
import torch
from lowtide import _runtime
from lowtide.pytorch import simulated


def profile(device, file):
    """What the file says of the ops of a small step, by their keys."""
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()).to(device)
    graph = lowtide.capture(model, torch.ones(16, 32, device=device))
    _runtime.profiled(graph, file, device=device)
    return json.loads(file.read_text())["ops"]


@pytest.mark.parametrize("seed", range(3))
def test_work_and_launches_are_told_apart(seed, tmp_path):
    simulated.reseed(seed)
    ops = profile("simulated:0", tmp_path / "late.json")
    run = [op for op in ops.values() if op["allocations"]]
    assert run
    for op in run:
        assert op["microseconds"] > 0
        assert op["launch_microseconds"] > 0
    simulated.reseed(1)


def test_the_host_launches_nothing_for_itself(tmp_path):
    ops = profile("cpu", tmp_path / "host.json")
    assert all("launch_microseconds" not in op for op in ops.values())


def test_a_file_without_launches_is_still_read(tmp_path):
    file = tmp_path / "old.json"
    profile("simulated:0", file)
    document = json.loads(file.read_text())
    for op in document["ops"].values():
        op.pop("launch_microseconds", None)
        op["microseconds"] = 7.0
    file.write_text(json.dumps(document))
    assert all(op["microseconds"] == 7.0 for op in profile("simulated:0", file).values())
