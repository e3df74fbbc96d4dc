"""Results of different versions are compared: bench/over_time, with results that are made up."""

import pathlib
import runpy
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
from over_time import compare, results  # noqa: E402

MACHINE = "a processor, 2 cores"


def made_up(machine=MACHINE, **figures):
    """`figures`: by name, the unit and the values."""
    found = results.Results("2026-01-02T03:04:05Z", machine)
    for name, (unit, values) in figures.items():
        for value in values:
            found.add(name, unit, value)
    return found


def verdict_of(before, after, unit="seconds", machine=MACHINE):
    one, = compare.compare(made_up(step=(unit, before)), made_up(machine, step=(unit, after)))
    return one.verdict


@pytest.mark.parametrize("before, after, expected", [
    ([1.0, 1.1, 1.2], [1.3, 1.21, 1.4], "worse"),
    ([1.0, 1.1, 1.2], [1.15, 1.3, 1.4], "same"),  # one round is within the old ones
    ([1.0, 1.1, 1.2], [0.9, 0.8, 0.99], "better"),
    ([1.0, 1.1, 1.2], [1.2, 1.3, 1.4], "same"),
    ([1.0, 1.1, 5.0], [2.0, 2.1, 2.2], "same"),  # the old ones were that noisy
    ([1.0, 1.0], [2.0, 2.0, 2.0], "not compared"),
])
def test_times_are_compared_beyond_the_noise_of_the_files(before, after, expected):
    assert verdict_of(before, after) == expected


@pytest.mark.parametrize("before, after, expected", [
    ([100, 100, 100], [101, 101, 101], "worse"), ([100], [99], "better"),
    ([100], [100], "same"), ([0], [5], "worse")])
def test_bytes_have_no_noise(before, after, expected):
    assert verdict_of(before, after, unit="bytes") == expected


def test_another_machine_has_other_times_and_the_same_bytes():
    other = "another processor, 8 cores"
    assert verdict_of([1, 1, 1], [2, 2, 2], machine=other) == "not compared"
    assert verdict_of([100], [101], unit="bytes", machine=other) == "worse"


def test_what_is_measured_no_longer_is_worse_and_what_is_new_is_not():
    verdicts = compare.compare(made_up(gone=("bytes", [1])), made_up(new=("bytes", [1])))
    assert [(one.figure, one.verdict) for one in verdicts] == [
        ("gone", "worse"), ("new", "not compared")]


def test_another_unit_is_not_compared():
    one, = compare.compare(made_up(peak=("bytes", [1])), made_up(peak=("MiB", [1])))
    assert one.verdict == "not compared" and "bytes" in one.text


def test_a_file_holds_what_was_measured(tmp_path):
    measured = made_up(step=("seconds", [1.25, 1.5]), peak=("bytes", [10]))
    path = measured.write(tmp_path)
    assert path.name == "2026-01-02T030405Z-a-processor-2-cores.csv"
    assert results.Results.read(path) == measured
    with pytest.raises(FileExistsError):
        measured.write(tmp_path)


def run(*arguments):
    return runpy.run_path(str(ROOT / "bench" / "over_time" / "__main__.py"))["main"](
        [str(argument) for argument in arguments])


def test_the_command_says_what_got_worse_and_ends_with_1(tmp_path, capsys):
    old = made_up(step=("seconds", [1.0, 1.1, 1.2]), peak=("bytes", [100])).write(tmp_path / "old")
    new = made_up(step=("seconds", [2.0, 2.2, 2.4]), peak=("bytes", [100])).write(tmp_path / "new")
    assert run("compare", old, new) == 1
    said = capsys.readouterr().out
    assert "worse: step: 1.1 [1, 1.2] -> 2.2 [2, 2.4] seconds (+100.0%)" in said
    assert "same: peak: 100 -> 100 bytes" in said and MACHINE in said
    assert run("compare", new, old) == 0
    assert "better: step" in capsys.readouterr().out
    assert run("compare", old, old) == 0


@pytest.mark.parametrize("text, message", [
    ("", "is empty"), ("a,b\n1,2\n", "columns"),
    ("date,machine,figure,unit,value\n", "a row"),
    ("date,machine,figure,unit,value\nd,m,step,seconds,fast\n", "line 2"),
    ("date,machine,figure,unit,value\nd,m,step,seconds,1\ne,m,step,seconds,1\n", "line 3")])
def test_what_holds_no_results_is_refused(text, message, tmp_path, capsys):
    path = tmp_path / "results.csv"
    path.write_text(text)
    assert run("compare", path, path) == 2
    said = capsys.readouterr().err
    assert message in said and str(path) in said
    assert run("compare", tmp_path / "none.csv", path) == 2


def test_results_that_are_kept_can_be_read():
    kept = list(results.FOLDER.glob("*.csv"))
    assert kept
    for path in kept:
        file = results.Results.read(path)
        assert all(len(figure.values) >= compare.LEAST_ROUNDS for figure in file.figures.values())


def test_fewer_rounds_than_noise_needs_are_refused(capsys):
    with pytest.raises(SystemExit):
        run("measure", "--rounds", "2")
    assert "at least 3" in capsys.readouterr().err
