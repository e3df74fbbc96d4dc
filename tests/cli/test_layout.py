"""lowtide layout: tables of buffers, plans, pictures, and the pools beside them."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import ROOT

POOLS = ["best-fit", "first-fit", "next-fit", "buddy", "caching", "doubling-regions",
         "size-classes", "powers-of-two", "exact-sizes", "colors"]
BUFFERS = "id,lower,upper,size\na,0,2,30\nb,0,9,10\nc,0,2,20\nd,2,9,20\ne,3,9,5\nf,4,9,5\n"


@pytest.fixture
def buffers(lowtide):
    path = lowtide.folder / "buffers.csv"
    path.write_text(BUFFERS)
    return path


def rectangles(path):
    root = ElementTree.parse(path).getroot()
    return [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if len(e) == 1]


def test_pools_are_compared(lowtide, buffers):
    done = lowtide("layout", buffers, "--compare", "--json")
    assert done.code == 0, done.err
    comparison = done.json["comparison"]
    assert comparison["live_bytes"] == comparison["lower_bound"] == comparison["height"] == 60
    assert comparison["with_residents"] is False
    assert [pool["name"] for pool in comparison["pools"]] == POOLS
    heights = {pool["name"]: pool["height"] for pool in comparison["pools"]}
    assert heights["best-fit"] == heights["first-fit"] == 60
    assert heights["exact-sizes"] == 30 + 10 + 20 + 5 + 5
    assert heights["buddy"] == 32 + 16 + 16 + 32  # 10 at 32, 20 at 64, what is between is waste
    for pool in comparison["pools"]:
        assert pool["height"] >= pool["block_bytes"] >= comparison["live_bytes"]
        assert pool["fragmentation"] == pytest.approx(pool["height"] / 60 - 1)
        assert pool["summary"] and pool["source"]
    table = lowtide("layout", buffers, "--compare").out
    assert all(re.search(rf"^{name} +\d", table, re.MULTILINE) for name in POOLS)


def test_every_pool_is_documented():
    page = (ROOT / "docs" / "explanation" / "layout.md").read_text()
    assert all(f"`{name}`" in page for name in POOLS)


def test_a_graph_is_packed_as_keep_all(lowtide, graph):
    done = lowtide("layout", graph, "--compare", "--json", "-o", "placed.csv")
    assert done.code == 0, done.err
    found = done.json
    kept = lowtide("plan", graph, "--budget", "100%", "--strategy", "keep-all", "--json").json
    assert found["resident_bytes"] + found["height"] >= kept["keep_all_peak_bytes"]
    live = found["comparison"]["live_bytes"]
    assert found["resident_bytes"] + live == kept["keep_all_peak_bytes"]
    again = lowtide("layout", "placed.csv", "--json").json  # every offset fixed
    assert again["buffers"] == found["buffers"] and again["height"] <= found["height"]


def test_residents_are_left_out_or_counted(lowtide, graph):
    without = lowtide("layout", graph, "--compare", "--json").json
    counted = lowtide("layout", graph, "--compare", "--with-residents", "--json").json
    resident = without["resident_bytes"]
    assert resident > 0 and counted["comparison"]["with_residents"] is True
    for key in ("live_bytes", "lower_bound", "height"):
        assert counted["comparison"][key] == without["comparison"][key] + resident
    for pool, more in zip(without["comparison"]["pools"], counted["comparison"]["pools"]):
        assert more["block_bytes"] >= pool["block_bytes"] + resident


def test_a_plan_is_packed_from_its_file_or_made(lowtide, graph):
    planned = lowtide("plan", graph, "--budget", "80%", "-o", "p.json", "--json").json
    done = lowtide("layout", graph, "--plan", "p.json", "--svg", "p.svg", "--json")
    assert done.code == 0, done.err
    assert done.json["strategy"] == "search"
    assert done.json["budget_bytes"] == planned["budget_bytes"]
    assert done.json["resident_bytes"] + done.json["height"] <= planned["budget_bytes"]
    made = lowtide("layout", graph, "--budget", "80%", "--json")
    assert made.code == 0, made.err
    assert made.json["resident_bytes"] + made.json["height"] <= planned["budget_bytes"]
    titles = [rectangle[0].text for rectangle in rectangles(lowtide.folder / "p.svg")]
    assert len(titles) >= done.json["buffers"]
    text = (lowtide.folder / "p.svg").read_text()
    assert "of keep-all) by search" in text and "most alive: " in text and "budget " in text


def test_a_table_is_drawn(lowtide, buffers):
    assert lowtide("layout", buffers, "--svg", "b.svg").code == 0
    titles = [rectangle[0].text for rectangle in rectangles(lowtide.folder / "b.svg")]
    assert sorted(title[0] for title in titles) == list("abcdef")
    assert "buffers.csv" in (lowtide.folder / "b.svg").read_text()


def test_what_does_not_go_together_is_refused(lowtide, buffers, graph):
    lowtide("layout", buffers, "--budget", "60%").fails(2, "--budget is for a graph")
    lowtide("layout", buffers, "--compare", "--with-residents").fails(2, "--with-residents")
    lowtide("layout", graph, "--strategy", "segments").fails(2, "--budget")
    lowtide("layout", graph, "--budget", "1KiB", "--time-limit", 1).fails(3, "smaller batch")
    plan = lowtide("plan", graph, "--budget", "80%", "-o", "p.json", "--time-limit", 1)
    assert plan.code == 0
    broken = json.loads((lowtide.folder / "p.json").read_text())
    broken["actions"].insert(0, ["free", 0])
    (lowtide.folder / "p.json").write_text(json.dumps(broken))
    lowtide("layout", graph, "--plan", "p.json").fails(2, "breaks the rule")


def test_help_says_what_exit_code_3_means(lowtide):
    assert "no plan the budget, no layout the capacity" in lowtide("layout", "--help").out
