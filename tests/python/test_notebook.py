"""What notebooks show, and the example notebook, which runs from its first cell to its last."""

import ast
import json
import pathlib
import re
import xml.etree.ElementTree

import lowtide
import pytest
import torch
from lowtide.notebook import bars, table
from lowtide.notebook.html import sparkline
from lowtide.pytorch.tune import Tuned
from report_cases import HOSTILE, graph_of, hostile_graph, moving, planned

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "notebook" / "memory.ipynb"

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def tree_of(shown):
    """What a notebook is given: one element, without anything that runs or is loaded."""
    text = shown if isinstance(shown, str) else shown._repr_html_()
    tree = xml.etree.ElementTree.fromstring(text)
    for element in tree.iter():
        assert element.tag.rpartition("}")[2] in {
            "table", "tr", "th", "td", "div", "p", "pre", "svg", "title", "polygon", "polyline"}
        assert set(element.attrib) <= {"style", "role", "width", "height", "viewBox", "points",
                                       "fill", "fill-opacity", "stroke"}
        # Text has the notebook's own colour, on its own ground.
        assert not re.search(r"(^|[^-])color:", element.get("style", ""))
    return tree


def facts_of(shown):
    return {row[0].text: row[1].text for row in tree_of(shown).iter("tr")}


def test_a_plan_shows_its_figures():
    graph = graph_of("chain-29s3")
    plan = moving(graph, 0.5)
    facts = facts_of(plan)
    runs = [action[1] for action in plan.actions if action[0] == "run"]
    back = sum(action[0] == "prefetch" for action in plan.actions)
    assert facts["peak of live bytes"] == lowtide.format_bytes(plan.peak_bytes)
    assert facts["arena"] == lowtide.format_bytes(plan.arena_bytes)
    assert facts["runs"] == f"{len(runs)}, of which {len(runs) - len(set(runs))} again"
    assert facts["moved back from slower memory"] == f"{back} times"


def test_a_plan_that_runs_ops_again_says_how_often():
    graph = graph_of("chain-29s3")
    facts = facts_of(planned(graph, "60%"))
    again = sum(op.runs - 1 for op in lowtide._core.explanation(
        graph, planned(graph, "60%")).again)
    assert again and facts["runs"].endswith(f"of which {again} again")
    assert "moved back from slower memory" not in facts


@pytest.mark.parametrize("budget", ["70%", "1%"])
def test_what_the_planner_found_is_shown_as_it_says(budget):
    found = lowtide.plan(graph_of("chain-20s0"), budget, time_limit=0.5)
    facts = facts_of(found)
    assert facts["outcome"] == found.outcome
    assert ("peak of live bytes" in facts) == (found.plan is not None) == (budget == "70%")
    if found.plan is not None:
        assert facts["time above keep-all"] == f"{found.overhead:.2%}"


def test_a_frontier_has_a_row_for_each_budget_and_a_curve():
    frontier = lowtide.frontier(graph_of("chain-20s0"), points=4, time_limit=1)
    tree = tree_of(frontier)
    rows = [[cell.text for cell in row] for row in tree.iter("tr")][1:]
    assert [row[0] for row in rows] == [lowtide.format_bytes(point.budget_bytes)
                                        for point in frontier.points]
    assert [row[1] for row in rows] == [
        "no plan" if point.overhead is None else f"{point.overhead:.2%}"
        for point in frontier.points]
    assert tree.find("{http://www.w3.org/2000/svg}svg") is not None


def test_a_curve_keeps_its_highest_value():
    memory = [at * 7919 % 10007 for at in range(50_000)]
    tree = xml.etree.ElementTree.fromstring(sparkline(memory, "bytes"))
    points = tree.find("{http://www.w3.org/2000/svg}polyline").get("points").split()
    heights = [float(point.partition(",")[2]) for point in points]
    assert len(points) <= 240 and min(heights) == 0.0
    assert len(xml.etree.ElementTree.tostring(tree)) < 16_000


@pytest.mark.parametrize("values", [[], [0], [0, 0], [5], [1.5, 2.5]])
def test_curves_of_few_values(values):
    tree_of(sparkline(values, "few"))


def test_a_replay_shows_its_peak():
    graph = graph_of("chain-20s0")
    replayed = lowtide.replay(graph, lowtide.keep_all(graph))
    facts = facts_of(replayed)
    assert facts["peak of live bytes"] == lowtide.format_bytes(replayed.peak_bytes)
    assert facts["reached in action"] == str(replayed.peak_action)


@pytest.mark.parametrize("budget", [None, "70%"])
def test_an_estimate_shows_its_parts(budget):
    found = lowtide.estimate(graph_of("chain-20s0"), budget=budget, time_limit=0.5)
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in tree_of(found).iter("tr")}
    assert rows["peak"][1] == lowtide.format_bytes(found.peak_bytes)
    assert rows["activations"] == [lowtide.format_bytes(found.whole["activations"]),
                                   lowtide.format_bytes(found.at_peak["activations"])]
    assert any(name.startswith("peak of a plan") for name in rows) == (budget is not None)


def test_a_ranking_is_the_table_that_print_shows():
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
    tuned = lowtide.tune(net, torch.randn(64, 16), budget="64MiB", precisions=(), verbose=False,
                         time_limit=1.0)
    assert isinstance(tuned, Tuned)
    tree = tree_of(tuned)
    rows = [[cell.text or "" for cell in row] for row in tree.iter("tr")]
    assert len(rows) == 1 + len(tuned.ranked)
    assert [row[1] for row in rows[1:]] == [found.combination.label for found in tuned.ranked]
    assert tree.find("pre").text == tuned.code
    assert all(word in str(tuned) for row in rows for cell in row for word in cell.split())


class Printer:
    """As IPython's, which gives each value what to write to."""

    def __init__(self):
        self.written = ""

    def text(self, written):
        self.written += written


def test_a_terminal_shows_what_print_shows():
    net = torch.nn.Linear(16, 4)
    inputs = torch.randn(8, 16)
    tuned = lowtide.tune(net, inputs, budget="64MiB", precisions=(), ways=(), verbose=False,
                         time_limit=0.3)
    wrapped = lowtide.wrap(net, inputs, "64MiB", optimizer="sgd", verbose=False)
    for value in (lowtide.estimate(net, inputs), tuned, wrapped.memory):
        printer = Printer()
        value._repr_pretty_(printer, False)
        assert printer.written == str(value)
        assert "object at 0x" not in printer.written


def test_names_are_no_markup():
    assert HOSTILE in tree_of(bars({HOSTILE: 1}))[0][0].text
    assert tree_of(table([HOSTILE], [[HOSTILE]]))[1][0].text == HOSTILE
    graph = hostile_graph()
    assert facts_of(planned(graph, "100%"))["plan of"] == HOSTILE
    tree_of(lowtide.estimate(graph))


def cells(kind):
    document = json.loads(NOTEBOOK.read_text())
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    return [cell for cell in document["cells"] if cell["cell_type"] == kind]


def test_the_example_runs_and_shows():
    namespace, shown = {}, {}
    for cell in cells("code"):
        *body, last = ast.parse("".join(cell["source"])).body
        if not isinstance(last, ast.Expr):
            body.append(last)
        exec(compile(ast.Module(body, []), cell["id"], "exec"), namespace)
        if isinstance(last, ast.Expr):
            shown[cell["id"]] = eval(compile(ast.Expression(last.value), cell["id"], "eval"),
                                     namespace)
    for value in shown.values():
        tree_of(value)
    assert [type(value).__name__ for value in shown.values()] == [
        "Estimate", "Memory", "Frontier", "Planned", "Plan", "Replay"]
    assert len(set(namespace["losses"])) == 3  # it trains
    assert shown["wrap"].measured_peak <= shown["wrap"].budget


def test_the_example_is_stored_as_it_was_before_it_ran():
    """What it shows would be of another machine and of another version."""
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))
    names = [cell["id"] for cell in [*cells("code"), *cells("markdown")]]
    assert len(set(names)) == len(names)
