"""lowtide.explain of a wrapped module speaks of the user's modules too."""

import re

import lowtide
import pytest

torch = pytest.importorskip("torch")

from lowtide.pytorch.integrations.in_place import enable_memory_budget  # noqa: E402
from lowtide.pytorch.wrap import session_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x))) + x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().sum()


SETTINGS = {"budget": "70%", "optimizer": "none", "time_limit": 0.3, "cache": False}


def explain(wrapped):
    """The model's text, its session and the rows of modules: name, bytes, part of the time."""
    text = lowtide.explain(wrapped, most=100)
    table = text[text.index("module "):].splitlines()[1:]
    return text, session_of(wrapped), [re.split(r"  +", line) for line in table]


@pytest.fixture(scope="module")
def explained():
    return explain(lowtide.wrap(Net(), torch.randn(512, 64), **SETTINGS))


def in_place(model, inputs):
    return enable_memory_budget(model, example_inputs=inputs, **SETTINGS).planned


def exchanged(plan):
    """Plans a model whose forward another tool has exchanged for a function around it."""
    def planned(model, inputs):
        plain = model.forward
        model.forward = lambda x: 2 * plain(x)
        return plan(model, inputs)

    return planned


def wrapped(model, inputs):
    return lowtide.wrap(model, inputs, **SETTINGS)


@pytest.mark.parametrize("plan", [wrapped, in_place, exchanged(wrapped), exchanged(in_place)],
                         ids=["wrapped", "in place", "wrapped exchanged", "in place exchanged"])
def test_modules_are_called_as_in_the_model(plan):
    _, _, rows = explain(plan(Net(), torch.randn(512, 64)))
    names = {row[0] for row in rows}
    assert names <= {"(its own forward)", *(
        f"blocks.{i}{part}" for i in range(4)
        for part in (" (Block)", ".fc (Linear)", ".norm (LayerNorm)"))}
    assert any(name.startswith("blocks.1") for name in names)


def test_the_modules_hold_what_is_no_parameter_and_no_workspace(explained):
    """Up to the rounding of three digits."""
    _, session, rows = explained
    (region,) = session.regions
    graph, plan = region.priced.graph, session.plan_for(region)
    replayed = lowtide.replay(graph, plan)
    units = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
    held = sum(float(size) * units[unit] for row in rows
               for size, unit in re.findall(r"([\d.]+) (B|KiB|MiB)", " ".join(row[1:])))
    expected = replayed.peak_bytes - graph.resident_bytes - replayed.workspace_at_peak
    assert held == pytest.approx(expected, rel=0.01)


def test_what_runs_again_is_the_overhead(explained):
    _, session, rows = explained
    (region,) = session.regions
    again = sum(float(part) / 100 for row in rows for part in re.findall(r"([\d.]+)%", row[-1]))
    cost = session.plan_for(region).cost / region.priced.keep_all_cost - 1
    assert cost > 0 and again == pytest.approx(cost, abs=0.001)


def test_few_rows_end_with_the_others_together(explained):
    _, session, rows = explained
    text = session.explanation(2)
    assert f"and {len(rows) - 2} more" in text
