"""bench/smaller.py with processes that measure nothing: what it asks for, and what it writes."""

import csv
import importlib
import json
import pathlib
import runpy
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
FIGURES = {"peak_above_bytes": 3 << 20, "base_bytes": 1 << 20, "peak_total_bytes": 4 << 20,
           "held_bytes": 0, "setup_s": 1.0, "gradient_error": 0.0, "rounding": 0.0, "batch": 2,
           "step_cpu_s": 0.5, "step_wall_s": 0.5, "gradients": "exact", "buffers": "exact",
           "device": "cpu", "kept_bytes": 1 << 20}


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The commands that were run, of which each printed FIGURES."""
    commands, present, others = [], set(sys.modules), subprocess.run

    def run(command, **options):
        if "--tool" not in command:  # the platform asks for its name
            return others(command, **options)
        commands.append([str(word) for word in command])
        return subprocess.CompletedProcess(command, 0, json.dumps(FIGURES), "")

    for folder in (BENCH, BENCH / "pytorch"):
        monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(subprocess, "run", run)
    report = importlib.import_module("report")
    monkeypatch.setattr(report, "RESULTS", tmp_path / "bench" / "results")
    report.RESULTS.mkdir(parents=True)
    yield commands
    for name in set(sys.modules) - present:  # "run" and "tools" may be others elsewhere
        if str(BENCH) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("what, tools", [
    ("head", ["eager", "chunked_loss", "auto_chunker", "lowtide_slices", "lowtide_slices"]),
    ("floors", ["eager", "lowtide_slices", "lowtide_slices"] * 4),
    ("within", ["eager", "checkpoint", "lowtide_slices", "lowtide_slices"]),
    ("precision", ["eager", "lowtide", "eager", "lowtide_precision"] * 4)])
def test_each_tool_is_measured_in_a_process_and_has_a_row(asked, monkeypatch, tmp_path, what,
                                                          tools):
    monkeypatch.setattr(sys, "argv", ["smaller.py", what, "--slices", "4", "--steps", "1",
                                      "--sizes", '{"vocabulary": 64}'])
    runpy.run_path(str(BENCH / "smaller.py"), run_name="__main__")
    assert [words[words.index("--tool") + 1] for words in asked] == tools
    assert {words[words.index("--sizes") + 1] for words in asked} == {'{"vocabulary": 64}'}
    with open(tmp_path / "bench" / "results" / "smaller.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["tool"] for row in rows] == tools
    assert {float(row["peak_above_mib"]) for row in rows} == {3.0}
    assert {float(row["kept_mib"]) for row in rows} == {1.0}
