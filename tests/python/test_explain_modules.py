"""lowtide.explain of a wrapped module speaks of the user's modules too."""

import re

import lowtide
import pytest

torch = pytest.importorskip("torch")

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


@pytest.fixture(scope="module")
def explained():
    """The model's text, its session and the rows of modules: name, bytes, part of the time."""
    wrapped = lowtide.wrap(Net(), torch.randn(512, 64), budget="70%", optimizer="none",
                           time_limit=0.3, cache=False)
    text = lowtide.explain(wrapped, most=100)
    table = text[text.index("module "):].splitlines()[1:]
    return text, session_of(wrapped), [re.split(r"  +", line) for line in table]


def test_modules_are_called_as_in_the_model(explained):
    _, _, rows = explained
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
