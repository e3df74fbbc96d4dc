"""Reports as a browser shows them: light and dark, on a screen and on a phone."""

import contextlib
import functools
import importlib.util
import json
import os
import pathlib
import re

import browser as chromium
import lowtide
import pytest
from lowtide.page import CompiledPlan, Report, report_of_graph, write_page
from report_cases import HOSTILE, document_of, graph_of, hostile_graph, long_graph, moving, planned

pytestmark = [
    pytest.mark.skipif(chromium.PROGRAM is None, reason=chromium.WHY_NOT),
    pytest.mark.skipif(importlib.util.find_spec("plotly") is None, reason="pip install plotly"),
]
#: A folder for pictures of the pages, to look at.
PICTURES = os.environ.get("LOWTIDE_PICTURES")
SCREENS = [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)]


def small(folder):
    """Every part of the page is in use: reruns, moves, other plans, a trace."""
    graph = graph_of("torch-gpt")
    plan = moving(graph, 0.5)
    lowtide.write_trace(graph, plan, folder / "trace.json")
    return lowtide.report(graph, folder / "small.html", plan, run=folder / "trace.json",
                          time_limit=5.0)


def long(folder):
    graph = long_graph(5_000)
    return lowtide.report(graph, folder / "long.html", planned(graph, "100%", "keep-all", 30),
                          time_limit=0)


def hostile(folder):
    graph = hostile_graph()
    return lowtide.report(graph, folder / "hostile.html", planned(graph, "100%"), time_limit=0.5)


@pytest.fixture(scope="module")
def browser():
    with chromium.opened_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """By the function that makes it, once."""
    folder = tmp_path_factory.mktemp("pages")
    return functools.cache(lambda make: make(folder))


def opened_tab(browser, path, width=1280, scheme="light"):
    """A page, when it is drawn."""
    tab = chromium.Tab(browser, path.resolve().as_uri(), width, scheme)
    tab.wait_for("document.documentElement?.dataset.drawn !== undefined")
    if PICTURES:
        tab.screenshot(pathlib.Path(PICTURES) / f"{path.stem}-{scheme}-{width}.png")
    return tab


@pytest.fixture
def opened(browser):
    """Opens pages, each in a tab."""
    with contextlib.ExitStack() as tabs:
        yield lambda *arguments: tabs.enter_context(
            contextlib.closing(opened_tab(browser, *arguments)))


@pytest.fixture(scope="module")
def tab(browser, page):
    """The small page, with which several tests work."""
    with contextlib.closing(opened_tab(browser, page(small))) as tab:
        yield tab


def traces(tab, chart):
    return tab.value(f"document.getElementById('{chart}-chart').data.map(trace => trace.name)")


def shown_of_frontier(frontier):
    names = {"no plan is below": frontier["curve"], "search, at other budgets": frontier["curve"],
             "other strategies": frontier["peers"],
             "how far it may be from the best": frontier["plan"]["bound"] is not None,
             "this plan": True, "no plan needs less memory": frontier["floor_bytes"] > 0}
    return [name for name, is_shown in names.items() if is_shown]


@pytest.mark.parametrize("scheme, width", SCREENS)
@pytest.mark.parametrize("make", [small, long])
def test_all_charts_are_drawn(opened, page, make, scheme, width):
    path = page(make)
    graph = document_of(path)["graphs"][0]
    tab = opened(path, width, scheme)
    assert tab.errors() == []
    memory = graph["memory"]
    measured = int(memory["measured"] is not None)
    assert len(traces(tab, "memory")) == len(memory["bands"]) + len(memory["levels"]) + measured
    arena = graph["arena"]
    shown = {graph["contents"][number] for number in arena["boxes"]["content"]}
    assert shown <= set(traces(tab, "arena")) - {"budget"}
    lanes = [lane["lane"] for lane in graph["schedule"]["lanes"]]
    assert traces(tab, "schedule") == lanes
    assert traces(tab, "frontier") == shown_of_frontier(graph["frontier"])
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value("document.querySelectorAll('svg *').length") < 12_000
    ground = tab.value("getComputedStyle(document.body).backgroundColor")
    assert (min(map(int, re.findall(r"\d+", ground))) > 200) == (scheme == "light")


def test_the_scheme_may_change_while_a_page_is_open(tab):
    colour = "document.getElementById('memory-chart').data[0].fillcolor"
    before = tab.value(colour)
    tab.call("Emulation.setEmulatedMedia",
             features=[{"name": "prefers-color-scheme", "value": "dark"}])
    tab.wait_for(f"{colour} !== '{before}'")
    assert tab.errors() == []


def test_another_graph_is_chosen(opened, tmp_path):
    chains = [graph_of(name) for name in ("chain-20s0", "chain-20s3")]
    shown = [report_of_graph(graph, planned(graph, "80%", seconds=0.3)) for graph in chains]
    tab = opened(write_page(Report("two graphs", [("budget", "none")], "", shown),
                            tmp_path / "two.html"))
    tab.value("graph.selectedIndex = 1, graph.dispatchEvent(new Event('change'))")
    tab.wait_for(f"document.documentElement.dataset.drawn === '{chains[1].name}'")
    peak = dict(shown[1].document["figures"])["peak of live bytes"]
    assert peak in tab.value("document.getElementById('graph-figures').textContent")
    assert tab.errors() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_addresses_of_another_compiler_are_a_sentence(opened, tmp_path, width):
    graphs = [graph_of(name) for name in ("chain-20s0", "chain-20s3")]
    plans = [planned(graph, "80%", seconds=0.3) for graph in graphs]
    text = json.loads(plans[0].format())
    bare = lowtide.Plan.parse(json.dumps(
        {key: value for key, value in text.items() if key not in ("arena_bytes", "offsets")}))
    compiled = CompiledPlan(f"A plan of {HOSTILE}", f"Addresses are those of {HOSTILE}.",
                            frozenset({len(graphs[0].ops) - 1}), "why not")
    tab = opened(write_page(
        Report("compiled", [("budget", "none")], "", [
            report_of_graph(graphs[0], bare, compiled=compiled),
            report_of_graph(graphs[1], plans[1])]), tmp_path / "compiled.html"), width)
    assert tab.value("document.getElementById('arena-caption').textContent") == compiled.addresses
    is_drawn = "document.getElementById('arena-chart').getClientRects().length > 0"
    assert not tab.value(is_drawn) and not tab.value("document.getElementById('arena').hidden")
    assert HOSTILE in tab.value("document.getElementById('graph-lead').textContent")
    tab.value("graph.selectedIndex = 1, graph.dispatchEvent(new Event('change'))")
    tab.wait_for(f"document.documentElement.dataset.drawn === '{graphs[1].name}'")
    assert tab.value(is_drawn)
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.errors() == []


def rows(tab):
    return tab.value("[...document.querySelectorAll('#decisions-table tbody tr')]"
                     ".map(row => [...row.cells].map(cell => cell.textContent))")


def test_the_table_is_searched_sorted_and_filtered(tab, page):
    known = document_of(page(small))["graphs"][0]["decisions"]["rows"]
    name = known[-1]["name"]
    tab.value(f"search = document.getElementById('search'), search.value = {name!r}, "
              f"search.dispatchEvent(new Event('input'))")
    found = rows(tab)
    assert found and len(found) < len(known)
    assert all(any(name in cell for cell in row) for row in found)
    tab.value("search.value = '', search.dispatchEvent(new Event('input'))")
    tab.value("[...document.querySelectorAll('#decisions-table th button')]"
              ".find(button => button.textContent === 'bytes').click()")
    largest = max(row["bytes"] for row in known)
    assert rows(tab)[0][2] == lowtide.format_bytes(largest)
    tab.value("[...document.querySelectorAll('#filters label')]"
              ".find(label => label.textContent.trim() === 'moved').firstChild.click()")
    assert "moved" not in {row[0] for row in rows(tab)}


def test_charts_of_time_zoom_together(tab, page):
    end = document_of(page(small))["graphs"][0]["memory"]["end"]
    tab.value(f"Plotly.relayout('memory-chart', {{'xaxis.range': [0, {end / 4}]}}).then(() => 0)")
    for chart in ("arena", "schedule"):
        tab.wait_for(f"document.getElementById('{chart}-chart').layout.xaxis.range[1] <= {end / 3}")
    assert tab.errors() == []


def test_a_value_tells_about_itself(tab, page):
    tab.value("Plotly.Fx.hover('arena-chart', [{curveNumber: 0, pointNumber: 0}])")
    graph = document_of(page(small))["graphs"][0]
    name = graph["contents"][min(graph["arena"]["boxes"]["content"])]
    shown = "document.querySelector('#arena-chart .hoverlayer').textContent"
    tab.wait_for(f"{shown} !== ''")
    first = tab.value("document.getElementById('arena-chart').data[0].name")
    assert first == name and "from 0 ms to" in tab.value(shown)


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_names_are_shown_and_nothing_else(opened, page, width):
    tab = opened(page(hostile), width)
    assert tab.errors() == []
    assert tab.value("document.getElementById('title').textContent") == HOSTILE
    assert tab.value("document.querySelectorAll('[onclick]').length") == 0
    assert tab.value("document.scripts.length") == 3
    assert any(HOSTILE in cell for row in rows(tab) for cell in row)
    assert tab.value("document.documentElement.scrollWidth") <= width
