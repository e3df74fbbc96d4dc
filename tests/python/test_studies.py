"""The studies of bench/studies: each runs on its smallest case, and its rows have the property that
the study shows. The recorded rows, which the documentation quotes, have it too."""

import importlib
import itertools
import pathlib
import re
import runpy
import sys
import xml.etree.ElementTree

import lowtide
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
from studies import graphs, memory  # noqa: E402

NAMES = runpy.run_path(str(ROOT / "bench" / "studies" / "__main__.py"))["NAMES"]
EPSILON = 1e-6  # of an overhead


def study(name):
    return importlib.import_module(f"studies.{name}").STUDY


def of_each(rows, *columns):
    """Lists of rows that are equal in `columns`."""
    def key(row):
        return tuple(str(row[column]) for column in columns)

    return [list(group) for _, group in itertools.groupby(sorted(rows, key=key), key)]


def check_reuse(rows):
    for group in of_each(rows, "model", "size"):
        for figure in ("feature_bytes", "total_bytes"):
            held = {row["way"]: row[figure] for row in group}
            assert held["all"] <= held["sharing"] <= held["nothing"]
            assert max(held["in place"], held["checkpoints"]) <= held["nothing"]


def check_checkpoint_time(rows):
    for row in rows:
        assert row["measured_bytes"] <= row["budget_bytes"]
        assert row["measured_bytes"] < row["measured_keep_all_bytes"]
        assert row["predicted"] > 0 and str(row["bit_identical"]) == "True"


def check_pools(rows):
    for group in of_each(rows, "model", "plan"):
        heights = {row["pool"]: row["height"] for row in group}
        assert len(heights) > 5
        assert group[0]["live_bytes"] <= heights["planned"] <= min(heights.values()) * 1.001


def check_square_root(rows):
    for row in rows:
        assert row["bound"] <= row["overhead"] + EPSILON
        assert row["overhead"] <= row["sqrt_overhead"] + EPSILON
        assert row["budget_bytes"] < row["keep_all_bytes"]


def check_frontiers(rows):
    for group in of_each(rows, "model"):
        ordered = sorted(group, key=lambda row: row["budget_bytes"])
        assert all(less["overhead"] >= more["overhead"] - EPSILON
                   for less, more in itertools.pairwise(ordered))
        assert all(row["bound"] == "" or row["bound"] <= row["overhead"] + EPSILON
                   for row in group)


def check_ten_percent(rows):
    for row in rows:
        assert row["overhead"] < 0.1
        assert 1 <= row["factor"] <= row["factor_above_residents"]


def check_gpt_sizes(rows):
    for row in rows:
        held = row["weights"] + row["gradients"] + row["optimizer"]
        assert held == 16 * row["parameters"]
    for one, eight in of_each(rows, "size"):
        assert 7.9 < eight["activations"] / one["activations"] < 8.1


def check_inference(rows):
    for row in rows:
        assert row["neighbour_bytes"] <= row["packed_bytes"] < row["all_bytes"]
        assert row["packed_bytes"] <= row["measured_bytes"]
        if row["model"] in ("mlp", "vgg16"):  # chains
            assert row["packed_bytes"] <= row["neighbour_bytes"] + 1024


def check_reruns(rows):
    for row in rows:
        assert 0 <= row["rerun_bytes"] <= row["saved_bytes"]
    for group in of_each(rows, "model", "share"):
        saved = [sum(row["saved_bytes"] for row in part) for part in of_each(group, "grouping")]
        assert saved[0] == saved[1] and any(row["rerun_bytes"] for row in group)


def check_devices(rows):
    for row in rows:
        assert row["bound"] == "" or row["bound"] <= row["overhead"] + EPSILON
        assert row["planned_for"] != row["run_on"] or row["common_reruns"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_the_smallest_case_shows_what_the_study_shows(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = study(name)
    rows = [dict(zip(found.columns, row, strict=True)) for row in found.rows(found.smallest)]
    assert rows
    globals()[f"check_{name}"](rows)


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_rows_show_it_too_and_are_drawn(name):
    found = study(name)
    rows = found.recorded()
    globals()[f"check_{name}"](rows)
    drawn = found.picture(rows)
    xml.etree.ElementTree.fromstring(drawn)
    picture = ROOT / "docs" / "pictures" / f"study-{name.replace('_', '-')}.svg"
    assert picture.read_text() == drawn, f"run bench/studies {name} --draw"


def test_bytes_of_plans_are_those_of_the_replay():
    """Counted apart by the package, for plans with and without reruns."""
    graph = graphs.zoo_graph("resnet18", ("--batch", 2, "--image", 64))
    for found in (lowtide.plan(graph, "100%", "keep-all").plan,
                  lowtide.plan(graph, 1, "chen-sqrt").smallest_plan):
        counted = memory.peak_bytes(graph, found, lambda tensor: True)
        assert counted + graph.resident_bytes == lowtide.replay(graph, found).peak_bytes


def quoted(name):
    """The numbers in the tables of a study's section of the page, as they are written."""
    page = (ROOT / "docs" / "explanation" / "studies.md").read_text()
    section = next(part for part in page.split("\n## ") if f"study_{name}.csv" in part)
    tables = re.findall(r"^\|(?! ---).*\|$", section, re.MULTILINE)
    return [number.replace(",", "") for line in tables
            for number in re.findall(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w.])", line)]


def is_a_figure_of(number, rows):
    """Whether it is a cell, as it stands, in percent, MiB, GiB or millions, rounded."""
    digits = len(number.partition(".")[2])
    return any(round(cell * scale, digits) == float(number)
               for row in rows for cell in row.values() if isinstance(cell, float)
               for scale in (1, 100, 2**-20, 2**-30, 1e-6))


@pytest.mark.parametrize("name", NAMES)
def test_figures_of_the_page_are_in_the_rows(name):
    rows = study(name).recorded()
    assert [number for number in quoted(name) if not is_a_figure_of(number, rows)] == []


def test_the_check_of_figures_finds_a_wrong_one():
    rows = study("gpt_sizes").recorded()
    assert is_a_figure_of(f"{100 * rows[0]['activations'] / 100:.0f}", rows)
    assert not is_a_figure_of("123456.789", rows)
