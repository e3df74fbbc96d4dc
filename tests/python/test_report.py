"""What a report shows is what the plan, its replay and its explanation say."""

import importlib.util
import json
import re
import subprocess
import sys

import lowtide
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowtide import _core
from lowtide.page import report_of_graph, report_of_plan
from lowtide.page.lives import Content, lives
from lowtide.page.memory import shown_actions
from lowtide.page.origins import layer_groups
from lowtide.page.other_plans import PEERS
from random_graphs import graphs
from report_cases import (
    HOSTILE,
    ROOT,
    document_of,
    graph_of,
    graph_with_a_write_in_place,
    hostile_graph,
    long_graph,
    moving,
    planned,
    require_addresses_of,
    require_bands_of,
    size_without_library,
)

needs_plotly = pytest.mark.skipif(importlib.util.find_spec("plotly") is None,
                                  reason="pip install plotly")
QUICK = ("keep-all", "chen-sqrt", "selective", "dtr", "greedy")
RESNET = "torch-resnet50"


@pytest.fixture(scope="module")
def resnet():
    graph = graph_of(RESNET)
    return graph, planned(graph, "60%")


@pytest.fixture(scope="module")
def with_moves():
    graph = graph_of("torch-gpt")
    return graph, moving(graph, 0.5)


@settings(deadline=None, max_examples=60)
@given(graphs(), st.sampled_from(QUICK), st.integers(50, 100))
def test_bands_and_boxes_of_random_plans(document, strategy, percent):
    graph = lowtide.Graph.parse(json.dumps(document))
    found = lowtide.plan(graph, f"{percent}%", strategy, time_limit=0.5)
    if found.plan is not None:
        require_bands_of(graph, found.plan)
        require_addresses_of(graph, found.plan)


@pytest.mark.parametrize("case", ["resnet", "with_moves"])
def test_bands_and_boxes_of_a_model(case, request):
    graph, plan = request.getfixturevalue(case)
    require_bands_of(graph, plan)
    require_addresses_of(graph, plan)


def test_what_is_written_in_place_lies_where_its_input_lay():
    graph = graph_with_a_write_in_place()
    plan = lowtide.Plan.parse(json.dumps({
        "format": "lowtide-plan", "version": 1, "graph": "in-place", "cost": 3, "peak_bytes": 256,
        "actions": [["run", 0], ["run", 1, [0]], ["run", 2], ["free", 2]], "arena_bytes": 320,
        "offsets": [[0, [["t", 1, 64]]], [2, [["t", 3, 192]]]]}))
    assert lowtide.verify(graph, plan) is None
    found = {graph.tensors[life.tensor].name: (life.begin, life.end, life.offset)
             for life in lives(graph, plan)}
    assert found == {"first": (0, 1, 64), "over": (1, 3, 64), "last": (2, 4, 192)}
    require_bands_of(graph, plan)
    require_addresses_of(graph, plan)


@pytest.mark.parametrize("case", ["resnet", "with_moves"])
def test_the_last_moment_is_the_cost(case, request):
    graph, plan = request.getfixturevalue(case)
    moments = _core.timeline(graph, plan)
    verbs = [action[0] for action in plan.actions]
    ends = [end for verb, (_, _, end) in zip(verbs, moments) if verb in ("run", "wait")]
    assert max(ends) == pytest.approx(plan.cost) == pytest.approx(lowtide.replay(graph, plan).cost)
    for verb in ("offload", "prefetch"):  # one lane each: a copy after another
        copies = [(begin, end) for own, (_, begin, end) in zip(verbs, moments) if own == verb]
        assert all(first[1] <= second[0] + 1e-6 for first, second in zip(copies, copies[1:]))


def test_the_schedule_has_all_the_time_of_the_plan(with_moves):
    graph, plan = with_moves
    lanes = {lane["lane"]: lane for lane in report_of_graph(graph, plan).document["schedule"]
             ["lanes"]}
    assert {"forward", "backward", "copies out", "copies in"} <= set(lanes)
    busy = sum(sum(lane["busy"]) for name, lane in lanes.items() if not name.startswith("copies"))
    assert busy == pytest.approx(plan.cost / 1e3)
    explained = _core.explanation(graph, plan)
    again = sum(lanes["run again"]["busy"]) if "run again" in lanes else 0.0
    assert again == pytest.approx(sum(op.cost for op in explained.again) / 1e3)


def test_figures_are_those_of_the_plan(resnet):
    graph, plan = resnet
    document = report_of_graph(graph, plan).document
    figures, explained = dict(document["figures"]), _core.explanation(graph, plan)
    text = lowtide.explain(graph, plan)
    assert figures["peak of live bytes"] == lowtide.format_bytes(plan.peak_bytes)
    assert figures["arena"] == lowtide.format_bytes(plan.arena_bytes)
    assert f"costs {figures['time above keep-all']} more" in text
    assert document["frontier"]["plan"]["overhead"] == explained.overhead
    held = document["held"]
    assert sum(row["bytes"] for row in held["rows"]) + held["rest"]["bytes"] == plan.peak_bytes
    assert held["rows"][0]["bytes"] == max(row["bytes"] for row in held["rows"])


def test_decisions_say_what_the_explanation_says(resnet):
    graph, plan = resnet
    rows = report_of_graph(graph, plan).document["decisions"]["rows"]
    again = {row["name"]: row for row in rows if row["what"] == "run again"}
    explained = _core.explanation(graph, plan)
    assert len(again) == len(explained.again) > 0
    for op in explained.again:
        row = again[graph.ops[op.op].name]
        assert row["times"] == op.runs - 1
        assert row["cost"] == op.cost / explained.keep_all_cost
    dearest = graph.ops[explained.again[0].op].name
    assert again[dearest]["why"].partition(", but")[0].removeprefix("held instead, it takes ") in (
        lowtide.explain(graph, plan))
    kept = [row for row in rows if row["what"] == "kept"]
    assert kept and all(row["bytes"] > 0 and row["why"] for row in kept)
    read = {row["name"] for row in kept if row["why"].startswith("read by ")}
    results = {graph.tensors[tensor].name for tensor in graph.outputs}
    assert {row["name"] for row in kept} - read <= results and read
    assert not {row["name"] for row in kept} & set(again)


def test_moves_are_listed_with_their_copies(with_moves):
    graph, plan = with_moves
    rows = report_of_graph(graph, plan).document["decisions"]["rows"]
    moved = {row["name"]: row["bytes"] for row in rows if row["what"] == "moved"}
    assert moved == {graph.tensors[one.storage].name: graph.tensors[one.storage].bytes
                     for one in _core.explanation(graph, plan).moved}


def test_other_budgets_and_strategies_are_planned():
    graph = graph_of("chain-29s3")
    plan = planned(graph, "60%")
    document = report_of_graph(graph, plan, time_limit=4.0).document
    curve = document["frontier"]["curve"]
    assert len(curve) > 2
    assert all(more["budget"] >= less["budget"] and more["overhead"] <= less["overhead"]
               for more, less in zip(curve, curve[1:]))
    assert all(point["bound"] is None or point["bound"] <= point["overhead"] + 1e-9
               for point in curve)
    orders = {"fixed-order": "that keeps the order of the ops", "any-order": "in any order"}
    models = {point["model"] for point in curve if point["bound"] is not None}
    assert models <= set(orders)
    proved_for = orders["fixed-order" if "fixed-order" in models else "any-order"]
    assert document["frontier"]["proved_for"] == (proved_for if models else "")
    peers = {peer["strategy"]: peer for peer in document["frontier"]["peers"]}
    assert "chen-sqrt" in peers and set(peers) <= set(PEERS)
    alone = lowtide.plan(graph, plan.budget_bytes, "chen-sqrt", time_limit=4.0)
    reached = alone.plan or alone.smallest_plan
    assert peers["chen-sqrt"]["overhead"] == pytest.approx(reached.cost / alone.keep_all_cost - 1)
    within = [point for point in curve if point["budget"] == plan.budget_bytes]
    assert within and all(point["overhead"] <= document["frontier"]["plan"]["overhead"]
                          for point in within)
    smallest = lowtide.format_bytes(curve[-1]["budget"])
    assert any(smallest in text for text in document["advice"])


def test_of_a_plan_that_moves_others_say_less(with_moves):
    document = report_of_graph(*with_moves, time_limit=2.0).document
    frontier = document["frontier"]
    assert frontier["moves"] and frontier["curve"]
    assert all(point["strategy"] == "search" for point in frontier["curve"])
    assert not any("more, a step" in text for text in document["advice"])


def test_without_time_no_other_plans_are_made(resnet):
    document = report_of_graph(*resnet).document
    assert document["frontier"]["curve"] == document["frontier"]["peers"] == []
    assert document["advice"] == []


def test_a_plan_that_keeps_all_says_that_memory_saves_nothing():
    graph = graph_of("chain-20s0")
    document = report_of_graph(graph, planned(graph, "100%"), time_limit=0.5).document
    assert document["advice"][0].startswith("More memory saves no time")


def test_of_many_actions_the_highest_are_shown():
    memory = [at * 7919 % 10007 for at in range(50_000)]
    shown = shown_actions(memory, [float(at) for at in range(50_000)])
    assert len(shown) < 2000 and shown == sorted(set(shown))
    for begin in range(0, 50_000, 5_000):
        column = range(begin, begin + 5_000)
        assert max(memory[at] for at in shown if at in column) == max(map(memory.__getitem__,
                                                                           column))


@pytest.mark.parametrize("layers, groups", [
    (["conv1", "layer1.0", "layer1.1", "layer2.0", "fc"],
     ["conv1", "layer1.0", "layer1.1", "layer2.0", "fc"]),
    ([f"h.{i}.attn" for i in range(16)],
     [f"h.{i - i % 2} – h.{i - i % 2 + 1}" for i in range(16)]),
    (["", "a"], ["a"]),
    ([], []),
])
def test_layers_are_grouped(layers, groups):
    found = layer_groups(layers)
    assert [found[layer] for layer in layers if layer] == groups
    assert len(set(found.values())) <= 8


@needs_plotly
def test_a_page_of_100_000_ops_is_small(tmp_path):
    graph = long_graph(50_000)
    plan = planned(graph, "100%", "keep-all", 60)
    page = lowtide.report(graph, tmp_path / "long.html", plan, time_limit=0)
    assert size_without_library(page) < 1 << 20
    shown = document_of(page)["graphs"][0]
    assert len(shown["arena"]["boxes"]["name"]) < 1600
    assert shown["arena"]["raster"]["boxes"] > 100_000
    assert max(len(lane["name"]) for lane in shown["schedule"]["lanes"]) <= 1200
    assert sum(sum(lane["count"]) for lane in shown["schedule"]["lanes"]) == 100_000
    left = sum(more["rows"] for more in shown["decisions"]["left_out"].values())
    assert len(shown["decisions"]["rows"]) + left > 40_000
    require_bands_of(graph, plan)


@needs_plotly
def test_names_are_no_markup(tmp_path):
    graph = hostile_graph()
    page = lowtide.report(graph, tmp_path / "page.html", planned(graph, "100%"), time_limit=0)
    text = page.read_text(encoding="utf-8")
    assert "<b onclick" not in text and text.count("</script>") == 3
    document = document_of(page)
    assert document["title"] == HOSTILE
    assert any(HOSTILE in name for name in document["graphs"][0]["arena"]["boxes"]["name"])


def test_without_plotly_the_error_says_what_to_install(resnet, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(lowtide.InputError, match=re.escape('pip install "lowtide[report]"')):
        lowtide.report(resnet[0], tmp_path / "page.html", resnet[1], time_limit=0)
    assert not (tmp_path / "page.html").exists()


def test_a_trace_is_drawn_as_measured(resnet, tmp_path):
    graph, plan = resnet
    trace = tmp_path / "trace.json"
    lowtide.write_trace(graph, plan, trace)
    measured = report_of_plan(graph, plan, trace, 0.0).graphs[0].document["memory"]["measured"]
    counted = [event for event in json.loads(trace.read_text())["traceEvents"]
               if event["name"] == "bytes in use"]
    assert max(measured["bytes"]) == plan.peak_bytes
    assert measured["times"][-1] == pytest.approx(counted[-1]["ts"] / 1e3)


@pytest.mark.parametrize("content, words", [
    (None, ("cannot be read",)),
    ("{", ("no trace of lowtide",)),
    ('{"traceEvents": [{"name": "process_name", "args": {"name": "other"}}]}',
     ("a trace of other", RESNET)),
])
def test_what_is_wrong_with_a_trace_is_said(resnet, tmp_path, content, words):
    trace = tmp_path / "trace.json"
    if content is not None:
        trace.write_text(content)
    with pytest.raises(lowtide.InputError) as error:
        lowtide.report(resnet[0], tmp_path / "page.html", resnet[1], run=trace, time_limit=0)
    assert all(word in str(error.value) for word in (*words, str(trace)))


@pytest.mark.parametrize("arguments", [
    {"plan": None}, {"example_inputs": 1}, {"step": print},
])
def test_a_graph_is_shown_with_its_plan_alone(resnet, tmp_path, arguments):
    with pytest.raises(lowtide.InputError, match="with its plan"):
        lowtide.report(resnet[0], tmp_path / "page.html", **{"plan": resnet[1], **arguments})


def test_a_plan_of_another_graph_is_refused(resnet, tmp_path):
    with pytest.raises(lowtide.InputError, match="breaks the rule"):
        lowtide.report(graph_of("chain-20s0"), tmp_path / "page.html", resnet[1])


@needs_plotly
def test_the_command_writes_a_page_or_json(resnet, tmp_path):
    resnet[0].save(tmp_path / "graph.json")
    resnet[1].save(tmp_path / "plan.json")
    files = [tmp_path / "graph.json", tmp_path / "plan.json"]

    def run(*arguments):
        return subprocess.run([sys.executable, "-m", "lowtide", "report", *files, *arguments],
                              capture_output=True, text=True, cwd=ROOT)

    page = tmp_path / "page.html"
    done = run("-o", page, "--time-limit", "0")
    assert done.returncode == 0 and str(page) in done.stdout, done.stderr
    printed = run("--json", "--time-limit", "0")
    assert json.loads(printed.stdout) == document_of(page)
    nothing = run()
    assert nothing.returncode == 2 and "-o FILE" in nothing.stderr
    lost = run("-o", tmp_path / "no" / "page.html", "--time-limit", "0")
    assert lost.returncode == 2 and "cannot be written" in lost.stderr


def test_contents_are_those_that_the_page_has_colours_for():
    script = (ROOT / "python" / "lowtide" / "page" / "parts.js").read_text()
    for scheme in ("light", "dark"):
        block = re.search(rf"  {scheme}: {{(.*?)\n  }},", script, re.DOTALL)[1]
        assert re.findall(r'"([^"]+)": "#', block) == [content.value for content in Content]
