"""The report of a wrapped module: its figures, its user's names and lines, and a measured step."""

import importlib.util
import re
import xml.etree.ElementTree

import lowtide
import pytest
from report_cases import HOSTILE, document_of, require_addresses_of, require_bands_of

torch = pytest.importorskip("torch")

from lowtide.pytorch.wrap import session_of  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_thread", "own_cache"),
    pytest.mark.skipif(importlib.util.find_spec("plotly") is None, reason="pip install plotly"),
]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(64, 64), torch.nn.LayerNorm(64)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x))) + x


class Stack(torch.nn.Module):
    def __init__(self, names=("a", "b", "c", "d")):
        super().__init__()
        for name in names:
            self.add_module(name, Layer())

    def forward(self, x):
        for layer in self.children():
            x = layer(x)
        return x.square().sum()


@pytest.fixture
def trained():
    """A wrapped module, its optimizer and a step of its training, of which two have run."""
    model, inputs = Stack(), torch.randn(512, 64)
    optimizer = torch.optim.Adam(model.parameters())
    wrapped = lowtide.wrap(model, inputs, budget="70%", optimizer=optimizer, time_limit=0.3,
                           cache=False)

    def step():
        optimizer.zero_grad()
        wrapped(inputs).backward()
        optimizer.step()

    step()
    step()
    return wrapped, inputs, step


def test_figures_are_those_of_the_memory(trained, tmp_path):
    wrapped, _, _ = trained
    page = document_of(lowtide.report(wrapped, tmp_path / "page.html", time_limit=0))
    memory, figures = wrapped.memory, dict(page["figures"])
    assert figures["planned peak"] == lowtide.format_bytes(memory.planned_peak)
    assert figures["measured peak"] == lowtide.format_bytes(memory.measured_peak)
    graph, = page["graphs"]
    assert graph["memory"]["levels"] == {"budget": memory.budget,
                                         "planned peak": memory.planned_peak,
                                         "measured peak": memory.measured_peak}
    assert page["title"] == "Stack"
    assert str(memory) in page["lead"]


def test_bands_count_what_is_held_beside_the_graph(trained, tmp_path):
    wrapped, _, _ = trained
    memory = document_of(lowtide.report(wrapped, tmp_path / "page.html", time_limit=0))[
        "graphs"][0]["memory"]
    (graph, plan), = session_of(wrapped).figures.by_plans
    beside = wrapped.memory.existing - graph.region.priced.resident_bytes
    assert beside >= session_of(wrapped).state_bytes > 0
    require_addresses_of(graph.region.priced.graph, plan)
    require_bands_of(graph.region.priced.graph, plan)
    peak = max(map(sum, zip(*(band["bytes"] for band in memory["bands"]))))
    assert peak == plan.peak_bytes + beside <= wrapped.memory.planned_peak
    held = {band["content"]: band["bytes"][0] for band in memory["bands"]}
    assert held[2] == session_of(wrapped).state_bytes


def test_layers_and_lines_are_the_users(trained, tmp_path):
    wrapped, _, _ = trained
    graph = document_of(lowtide.report(wrapped, tmp_path / "page.html", time_limit=0))["graphs"][0]
    rows = graph["decisions"]["rows"]
    assert {row["layer"].split(".")[0] for row in rows if row["layer"]} == set("abcd")
    assert any(re.match(r".*test_report_module\.py:\d+, in forward", row["line"]) for row in rows)
    groups = [band["group"] for band in graph["memory"]["bands"] if band["group"]]
    assert groups and {group.split(".")[0] for group in groups} <= set("abcd")
    assert any("test_report_module.py" in row["line"] for row in graph["held"]["rows"])


def test_a_line_of_lowtide_is_none_of_the_users(tmp_path):
    """The forward of a Sequential is PyTorch's."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh())
    wrapped = lowtide.wrap(model, torch.randn(64, 64), time_limit=0.3, cache=False)
    graph, = document_of(lowtide.report(wrapped, tmp_path / "page.html", time_limit=0))["graphs"]
    rows = [*graph["decisions"]["rows"], *graph["held"]["rows"]]
    assert {row["layer"] for row in rows} >= {"1"} and {row["line"] for row in rows} == {""}


def test_a_step_is_measured(trained, tmp_path):
    wrapped, _, step = trained
    before = [parameter.clone() for parameter in wrapped.parameters()]
    page = document_of(lowtide.report(wrapped, tmp_path / "page.html", step=step, time_limit=0))
    assert not all(torch.equal(*pair) for pair in zip(before, wrapped.parameters()))
    measured = page["graphs"][0]["memory"]["measured"]
    assert measured["times"] == sorted(measured["times"]) and len(measured["times"]) >= 2
    memory = wrapped.memory
    assert memory.existing <= max(measured["bytes"]) <= memory.measured_peak


def test_bf16_and_half_of_the_batch_are_estimated(trained, tmp_path):
    wrapped, inputs, _ = trained
    page = document_of(lowtide.report(wrapped, tmp_path / "page.html", example_inputs=inputs,
                                      time_limit=0))
    optimizer = session_of(wrapped).settings.optimizer
    now, narrow, half = (
        lowtide.format_bytes(lowtide.estimate(Stack(), rows, optimizer=optimizer,
                                              precision=precision, measure=False).peak_bytes)
        for rows, precision in [(inputs, None), (inputs, "bf16"), (inputs[:256], None)])
    in_bf16, with_half = page["advice"]
    assert f"take {narrow} instead of {now}" in in_bf16
    assert "256 instead of 512 rows" in with_half and f"take {half} instead of {now}" in with_half


def test_names_of_modules_are_no_markup(tmp_path):
    assert "." not in HOSTILE
    wrapped = lowtide.wrap(Stack([HOSTILE, "b"]), torch.randn(64, 64), budget="90%", time_limit=0.3,
                           cache=False)
    page = lowtide.report(wrapped, tmp_path / "page.html", time_limit=0)
    assert "<b onclick" not in page.read_text()
    layers = {row["layer"] for row in document_of(page)["graphs"][0]["decisions"]["rows"]}
    assert any("</script><b onclick=" in layer for layer in layers), layers


def test_a_notebook_shows_the_memory(trained):
    memory = trained[0].memory
    table = xml.etree.ElementTree.fromstring(memory._repr_html_())
    shown = {row.find("th").text: row.find("td").text for row in table}
    assert shown["planned peak"] == lowtide.format_bytes(memory.planned_peak)
    assert shown["measured peak"] == lowtide.format_bytes(memory.measured_peak)
    assert "moved out" not in shown


@pytest.mark.parametrize("make, words", [
    (lambda: Stack(), ("is not wrapped",)),
    (lambda: lowtide.wrap(Stack(), budget="70%"), ("nothing is planned", "example_inputs")),
    (lambda: lowtide.wrap(Stack(), mode="inductor"), ("nothing is compiled", "example_inputs")),
])
def test_what_cannot_be_shown_is_said(make, words, tmp_path):
    with pytest.raises(lowtide.InputError) as error:
        lowtide.report(make(), tmp_path / "page.html", time_limit=0)
    assert all(word in str(error.value) for word in words)


def test_a_trace_is_for_graphs(trained, tmp_path):
    with pytest.raises(lowtide.InputError, match="give a step"):
        lowtide.report(trained[0], tmp_path / "page.html", run="trace.json", time_limit=0)
