"""The report, the figures and the live page of a module that Inductor compiles."""

import importlib.util
import re
import xml.etree.ElementTree

import lowtide
import pytest
from report_cases import document_of

torch = pytest.importorskip("torch")

from inductor_cases import Stack, without_code  # noqa: E402
from joint_graphs import Cell  # noqa: E402
from live_cases import state_of  # noqa: E402
from lowtide.pytorch import inductor  # noqa: E402
from lowtide.pytorch.wrap import session_of  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("one_thread", "one_compiling_process"),
    pytest.mark.cpu_only("Inductor generates no code for this device"),
    pytest.mark.skipif(importlib.util.find_spec("plotly") is None, reason="pip install plotly"),
]
ROWS, WIDTH = 256, 32


def batch(rows=ROWS):
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(0))


def wrapped(budget=None, model=None, **settings):
    torch.manual_seed(1)
    return lowtide.wrap(model or Stack(), batch(), budget, mode="inductor", time_limit=0.5,
                        **settings)


def report_of(model, folder, **given):
    return document_of(lowtide.report(model, folder / "page.html", **{"time_limit": 0, **given}))


def planned(model):
    session = session_of(model)
    return inductor.planned_step(session.last.fitted, session.name)


@pytest.fixture
def without():
    """No code is generated."""
    with without_code():
        yield


def below(memory, percent):
    """A budget of so much less than the step takes above what exists."""
    return memory.existing + (memory.planned_peak - memory.existing) * percent // 100


def shown(model, folder):
    """A wrapped model, what was planned, and its page."""
    return model, planned(model), report_of(model, folder, time_limit=0.1)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Without a limit."""
    with without_code():
        return shown(wrapped(optimizer="adam"), tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module")
def lowtides(own, tmp_path_factory):
    """Where PyTorch has no split beside its own."""
    with without_code(smaller_splits=False):
        model = wrapped(below(own[0].memory, 75), optimizer="adam")
        return shown(model, tmp_path_factory.mktemp("lowtides"))


@pytest.fixture(scope="module")
def smaller(tmp_path_factory):
    """Where Lowtide has no plan."""
    given = torch.randn(512, 16)
    with without_code(plans=False):
        memory = lowtide.wrap(Cell(), given, mode="inductor").memory
        model = lowtide.wrap(Cell(), given, below(memory, 90), mode="inductor")
        return shown(model, tmp_path_factory.mktemp("smaller"))


def test_without_a_limit_it_shows_the_split_of_pytorch(own):
    model, _, page = own
    memory, figures = model.memory, dict(page["figures"])
    assert page["title"] == "Stack" and str(memory) in page["lead"]
    assert figures["planned peak"] == lowtide.format_bytes(memory.planned_peak)
    assert figures["measured peak"] == lowtide.format_bytes(memory.measured_peak)
    assert figures["split"] == "PyTorch's own split"
    graph, = page["graphs"]
    table = xml.etree.ElementTree.fromstring(memory._repr_html_())
    shown = {row.find("th").text: row.find("td").text for row in table}
    assert shown.items() >= {(name, figures[name]) for name in ("planned peak", "measured peak")}
    assert graph["lead"].startswith("PyTorch's own split ")
    assert graph["frontier"]["plan"]["overhead"] == 0
    assert graph["memory"]["levels"] == {"planned peak": memory.planned_peak,
                                         "measured peak": memory.measured_peak}


def test_addresses_are_said_to_be_inductors(own):
    graph, = own[2]["graphs"]
    assert graph["arena"] is None and "Inductor chooses the addresses" in graph["addresses"]
    assert "arena" not in dict(graph["figures"])


def test_bands_count_all_that_exists(own):
    model, step, page = own
    graph, = page["graphs"]
    memory = graph["memory"]
    held = {graph["contents"][band["content"]]: band["bytes"][0] for band in memory["bands"]
            if not band["group"]}
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    assert held["parameters"] == parameters
    assert held["optimizer state"] == session_of(model).state_bytes > 2 * parameters
    assert held["batch and buffers"] == batch().nbytes + model.scale.nbytes
    existing = sum(held.get(name, 0) for name in ("parameters", "optimizer state",
                                                  "batch and buffers", "held beside this graph"))
    assert existing == model.memory.existing
    peak = max(map(sum, zip(*(band["bytes"] for band in memory["bands"]))))
    assert peak == step.plan.peak_bytes + existing - step.graph.resident_bytes


def test_a_plan_of_lowtides_is_shown_with_its_reasons_and_its_bound(lowtides):
    _, step, page = lowtides
    assert step.is_ours and step.whole is None and step.plan.arena_bytes is None
    assert lowtide.verify(step.graph, step.plan) is None
    graph, = page["graphs"]
    assert graph["lead"].startswith("Lowtide's plan by ")
    runs = [action[1] for action in step.plan.actions if action[0] == "run"]
    ops = step.graph.ops
    again = {ops[op].name for op in runs if runs.count(op) > 1}
    rows = [row for row in graph["decisions"]["rows"] if row["what"] == "run again"]
    assert again and again <= {row["name"] for row in rows}
    assert any("but there is room for" in row["why"] for row in rows)
    kept = lowtide.replay(step.graph, lowtide.keep_all(step.graph)).cost
    frontier = graph["frontier"]
    assert frontier["plan"]["overhead"] == pytest.approx(step.plan.cost / kept - 1)
    assert frontier["plan"]["bound"] == pytest.approx(max(0.0, step.plan.lower_bound / kept - 1))
    assert frontier["curve"] and frontier["floor_bytes"]


def test_a_smaller_split_of_pytorchs_is_compared_with_its_own(smaller):
    _, step, page = smaller
    assert not step.is_ours
    whole = lowtide.replay(step.whole, lowtide.keep_all(step.whole))
    graph, = page["graphs"]
    assert graph["lead"].startswith("PyTorch's split at ")
    frontier = graph["frontier"]
    assert frontier["keep_all_peak_bytes"] == whole.peak_bytes > step.plan.peak_bytes
    assert frontier["plan"]["bound"] is None  # of other plans than those of this graph
    assert frontier["plan"]["overhead"] == pytest.approx(step.plan.cost / whole.cost - 1)
    again = [row for row in graph["decisions"]["rows"] if row["what"] == "run again"]
    assert {row["name"] for row in again} == {step.graph.ops[op].name for op in step.again} != set()
    assert all(row["why"].startswith("PyTorch's split at ") for row in again)
    assert "run again" in {lane["lane"] for lane in graph["schedule"]["lanes"]}
    contents = {graph["contents"][band["content"]] for band in graph["memory"]["bands"]}
    assert "activations made again" in contents


def test_layers_and_lines_are_the_users(own):
    graph, = own[2]["graphs"]
    rows = graph["decisions"]["rows"]
    assert {row["layer"].split(".")[0] for row in rows if row["layer"]} == set("ab")
    lines = [row["line"] for row in [*rows, *graph["held"]["rows"]] if row["line"]]
    assert any(re.match(r".*inductor_cases\.py:\d+, in forward", line) for line in lines)


def test_other_formats(smaller, tmp_path):
    model, step, _ = smaller
    written = {suffix: lowtide.report(model, tmp_path / f"plan.{suffix}").read_text()
               for suffix in ("json", "dot", "csv")}
    assert written["dot"].count("computes again what the forward pass did") == len(step.again)
    assert '"run again"' in written["json"]
    with pytest.raises(lowtide.InputError, match="Inductor chooses"):
        lowtide.report(model, tmp_path / "plan.pickle")


def test_the_page_is_of_the_call_that_ran_last(without, tmp_path):
    model = wrapped()
    large = planned(model).plan.peak_bytes
    model(batch(64)).backward()
    model.zero_grad()
    page = report_of(model, tmp_path)
    assert planned(model).plan.peak_bytes < large
    assert "1 more, of other sizes" in page["lead"]


def test_before_the_first_step_there_is_nothing_to_show(tmp_path):
    model = lowtide.wrap(Stack(), mode="inductor")
    with pytest.raises(lowtide.InputError, match="example_inputs"):
        lowtide.report(model, tmp_path / "page.html")
    with pytest.raises(lowtide.InputError, match="ran no training step"):
        lowtide.report(model, tmp_path / "page.html", step=lambda: None)


# ---- Measured

class Training:
    """A wrapped model, its optimizer and a step."""

    def __init__(self, budget=None, **settings):
        plain = Stack()
        self.optimizer, self.given = torch.optim.Adam(plain.parameters()), batch()
        self.model = wrapped(budget, plain, **{"optimizer": self.optimizer, **settings})

    def step(self, beside_bytes=0):
        self.optimizer.zero_grad()
        loss = self.model(self.given)
        beside = torch.empty(beside_bytes, dtype=torch.uint8)
        loss.backward()
        self.optimizer.step()
        del beside


def test_a_step_is_measured(without, tmp_path):
    training = Training()
    model = training.model
    training.step()
    training.step()
    graph, = report_of(model, tmp_path, step=training.step)["graphs"]
    measured = graph["memory"]["measured"]
    gradients = sum(parameter.nbytes for parameter in model.parameters())
    assert measured["bytes"][0] == model.memory.existing + gradients
    assert measured["bytes"][-1] == model.memory.existing + gradients
    assert max(measured["bytes"]) <= model.memory.measured_peak


def test_a_step_that_compiles_is_said_to(without, tmp_path):
    torch.manual_seed(1)
    model = lowtide.wrap(Stack(), mode="inductor")
    graph, = report_of(model, tmp_path, step=lambda: model(batch()).backward())["graphs"]
    assert "compiled meanwhile" in graph["memory"]["measured"]["how"]


def test_each_pass_is_measured(without):
    training = Training()
    model, more = training.model, 1 << 20
    fitted = model.memory.measured_peak
    training.step(more)  # makes the optimizer's state
    assert model.memory.measured_peak == fitted
    training.step()
    plain = model.memory.measured_peak
    training.step(more)
    assert model.memory.measured_peak == plain + more
    training.step()
    assert model.memory.measured_peak == plain


def test_evaluation_between_passes_is_no_part_of_them(without):
    training = Training()
    training.step()
    many = batch(16 * ROWS)
    training.step()
    before = training.model.memory.measured_peak
    with torch.no_grad():
        training.model(many)
    assert training.model.memory.measured_peak == before


def test_the_live_page_has_what_each_pass_took(without):
    training = Training()
    training.step()
    seen = []
    with lowtide.live(training.model) as live:
        for more in (0, 1 << 20, 0):
            training.step(more)
            seen.append(training.model.memory.measured_peak)
        training.model(training.given)
        state = state_of(live)
    assert state["passes"]["count"] == 4
    assert state["memory"]["peak_bytes"]["values"][1:] == seen
    assert len(set(seen)) == 2


def test_a_budget_that_changes_is_measured_anew(without):
    training = Training()
    training.step()
    training.step(1 << 20)
    before = training.model.memory.measured_peak
    with lowtide.live(training.model) as live:
        training.model.budget = "1GiB"
        assert state_of(live)["memory"]["peak_bytes"]["values"] == [before]
    assert training.model.memory.budget == training.model.budget == 1 << 30
    training.step()
    assert training.model.memory.measured_peak < before
