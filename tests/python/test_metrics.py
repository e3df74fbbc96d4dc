"""Plain numbers of a training, and the page that says how to log them."""

import pathlib
import re
import sys
import types

import lowtide
import pytest
import torch
from lowtide.pytorch.budget.memory import Memory, Moved
from lowtide.pytorch.metrics import figures

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "how-to" / "watch-a-training.md"

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


@pytest.fixture
def values():
    """What the programs of the page begin with."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    batches = [(torch.randn(64, 16), torch.randint(4, (64,))) for _ in range(3)]
    model = lowtide.wrap(net, batches[0][0], budget="1MiB", optimizer=optimizer, time_limit=0.3,
                         cache=False)
    return {"lowtide": lowtide, "torch": torch, "model": model, "optimizer": optimizer,
            "batches": batches}


def block_with(word):
    block, = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
              if word in block)
    return block


def test_figures_are_those_of_the_memory(values):
    model = values["model"]
    before = lowtide.metrics(model)
    assert "lowtide_peak_bytes" not in before
    for batch, _ in values["batches"]:
        model(batch).sum().backward()
    found, memory = lowtide.metrics(model), model.memory
    assert all(type(value) in (int, float) for value in found.values())
    assert found["lowtide_budget_bytes"] == memory.budget == 1 << 20
    assert found["lowtide_planned_bytes"] == memory.planned_peak
    assert found["lowtide_peak_bytes"] == memory.measured_peak > 0
    assert found["lowtide_existing_bytes"] == memory.existing
    assert found["lowtide_outside_bytes"] == memory.outside
    assert found["lowtide_predicted_seconds"] > 0 <= found["lowtide_predicted_overhead"]
    assert lowtide.metrics(model, "a/").keys() == {
        name.replace("lowtide_", "a/") for name in found}
    listed = set(re.findall(r"`(lowtide_\w+)`", PAGE.read_text()))
    assert listed == set(found)


def test_bytes_that_moved_are_those_of_values_and_of_state():
    memory = Memory(None, 10, 20, 15, moved=Moved(1, 2), state_moved=Moved(30, 40))
    found = figures(memory, None)
    assert (found["moved_out_bytes"], found["moved_back_bytes"]) == (31, 42)
    assert "budget_bytes" not in found and "predicted_seconds" not in found


@pytest.mark.parametrize("settings", [{}, {"mode": "inductor"}])
def test_before_anything_is_planned(settings):
    found = lowtide.metrics(lowtide.wrap(torch.nn.Linear(2, 2), **settings))
    assert found["lowtide_planned_bytes"] == found["lowtide_existing_bytes"] >= 24
    assert "lowtide_predicted_seconds" not in found


def test_a_plain_module_has_none():
    with pytest.raises(lowtide.InputError, match="is not wrapped"):
        lowtide.metrics(torch.nn.Linear(2, 2))


def test_tensorboard_gets_them(values, monkeypatch):
    added = []

    class SummaryWriter:
        def add_scalar(self, tag, scalar_value, global_step=None):
            added.append((tag, float(scalar_value), global_step))

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard",
                        types.SimpleNamespace(SummaryWriter=SummaryWriter))
    exec(block_with("SummaryWriter"), values)
    assert [step for tag, _, step in added if tag == "lowtide/peak_bytes"] == [0, 1, 2]
    last = {tag: value for tag, value, step in added if step == 2}
    assert last.pop("loss") == values["loss"].item()
    assert last == lowtide.metrics(values["model"], "lowtide/")


def test_weights_and_biases_get_them(values, monkeypatch):
    logged = []
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(
        init=lambda project: None, log=logged.append))
    exec(block_with("wandb"), values)
    assert len(logged) == 3
    assert logged[-1] == {"loss": values["loss"].item(),
                          **lowtide.metrics(values["model"], "lowtide/")}


def test_the_program_of_the_live_page_runs(values, capsys):
    exec(block_with("lowtide.live"), values)
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
