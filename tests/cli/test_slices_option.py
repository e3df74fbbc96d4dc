"""`--slices` of the commands that build a model of the zoo."""

import json

import pytest

HEAD = ["--model", "gpt", "--batch", "4", "--layers", "1", "--width", "32", "--heads", "2",
        "--sequence", "32", "--vocabulary", "2000"]
ONE_THREAD = ["--threads", "1"]
#: Between the least of four slices and that of the whole batch.
BUDGET = "3MiB"


def test_a_model_trains_within_less_than_the_whole_batch_needs(lowtide):
    train = ["train", *HEAD, *ONE_THREAD, "--budget", BUDGET, "--steps", "2", "--json"]
    lowtide(*train).fails(3, "infeasible")
    done = lowtide(*train, "--slices", "4", "--check")
    assert done.code == 0, done.err
    assert (done.json["slices"], done.json["bit_identical"]) == (4, True)
    assert done.json["measured_peak_bytes"] <= 3 << 20


def test_a_checkpoint_keeps_the_number(lowtide, tmp_path):
    saved = tmp_path / "saved"
    train = ["train", *HEAD, *ONE_THREAD, "--steps", "1", "--slices", "2", "--save", saved]
    assert lowtide(*train).code == 0
    again = ["train", "--resume", saved, "--steps", "2"]
    assert lowtide(*again, "--json").json["slices"] == 2
    lowtide(*again, "--slices", "4").fails(2, "--slices 2, now 4")
    assert lowtide("train", "--resume", saved, "--steps", "1", "--json").json["slices"] == 2


def test_a_refusal_names_slices_where_they_need_less(lowtide):
    train = ["train", "--threads", "1", "--budget", "1KiB", "--time-limit", "1"]
    lowtide(*train, *HEAD).fails(3, "--slices 2 or more")
    lowtide(*train, *HEAD, "--slices", "3").fails(3, "--slices 4, or --slices auto")
    for all_rows in ("4", "auto"):
        assert "--slices" not in lowtide(*train, *HEAD, "--slices", all_rows).err
    one_row = ["--model", "mlp", "--image", "4", "--width", "8", "--batch", "1"]
    assert "--slices" not in lowtide(*train, *one_row).err


@pytest.mark.parametrize("option", ["--micro-batches", "--slices"])
def test_the_help_says_auto_where_it_is_taken(lowtide, option):
    def says_auto(command):
        line, = (line for line in lowtide(command, "--help").out.splitlines() if option in line)
        return "auto" in line

    assert all(map(says_auto, ["train", "tune"]))
    commands = {"graph": ["-o", "g.json"], "estimate": [],
                "max-batch": ["--budget", BUDGET], "max-length": ["--budget", BUDGET]}
    for command, more in commands.items():
        assert not says_auto(command)
        lowtide(command, "--model", "gpt", *more, option, "auto").fails(
            2, f"{option} auto", "lowtide train")
        assert "auto" not in lowtide(command, "--model", "gpt", *more, option, "0").fails(2).err


def test_what_is_found_without_moves_is_considered_with_them(lowtide):
    """Moves make one slice possible; without them only four have a plan."""
    train = ["train", *HEAD, *ONE_THREAD, "--steps", "1", "--time-limit", "0.2"]
    least = lowtide(*train, "--slices", "4", "--budget", "1KiB", "--json").json[
        "smallest_budget_bytes"]
    budget = least + (64 << 10)
    done = lowtide(*train, "--slices", "auto", "--budget", budget, "--host-budget", "1GiB")
    assert done.code == 0, done.err
    assert "note: 2 slices: no plan" in done.err
    assert "note: 4 slices: no plan" not in done.err
    assert "note: 4 slices: " in done.err and "note: 4 slices, with moves: " in done.err


def test_a_number_is_chosen_where_plans_are_made(lowtide):
    train = ["train", *HEAD, *ONE_THREAD, "--budget", BUDGET, "--steps", "1", "--json"]
    done = lowtide(*train, "--slices", "auto")
    assert done.code == 0, done.err
    assert done.json["slices"] > 1


@pytest.mark.parametrize("count", ["0", "-1", "2.5", "many"])
def test_a_number_of_slices_is_a_whole_one_above_0(lowtide, count):
    lowtide("graph", *HEAD, "--slices", count, "-o", "g.json").fails(2, "--slices", count)


def test_there_are_no_more_slices_than_rows(lowtide):
    graph = ["graph", *HEAD, "--slices", "3", "-o", "g.json"]
    assert lowtide(*graph).code == 0
    lowtide(*graph, "--micro-batches", "2").fails(2, "a micro-batch of 2 has 1 to 2 slices")


def test_graphs_and_estimates_are_in_slices(lowtide, tmp_path):
    def peak(*options):
        file = tmp_path / "g.json"
        assert lowtide("graph", *HEAD, *options, "-o", file).code == 0
        return json.loads(file.read_text())["name"], lowtide(
            "estimate", *HEAD, *options, "--json").json["peak_bytes"]

    (name, sliced), (_, whole) = peak("--slices", "4"), peak()
    assert name == "gpt-b4-s4"
    assert sliced < whole


def test_formulas_and_pipelines_know_no_slices(lowtide):
    sliced = ["--slices", "2"]
    lowtide("parallel", "--model", "gpt", "--global-batch", "4", "--cluster", "a100:4",
            *sliced).fails(2, "--slices")
    lowtide("estimate", "--transformer", "--sequence", "8", "--layers", "1", "--width", "8",
            "--heads", "1", "--vocabulary", "8", *sliced).fails(2, "--slices")


def test_the_largest_batch_is_a_multiple_of_the_slices(lowtide):
    done = lowtide("max-batch", "--model", "mlp", "--image", "4", "--width", "8", "--slices", "3",
                   "--budget", "1MiB", "--limit", "40", "--like", "cpu", "--json")
    assert done.code == 0, done.err
    assert done.json["size"] % 3 == 0


def test_no_batch_is_a_multiple_of_too_many_slices(lowtide):
    for slices, parts in ((1 << 62, 4), (2000, 1000), (1 << 63, 1)):
        lowtide("max-batch", "--model", "mlp", "--slices", slices, "--micro-batches", parts,
                "--budget", "1MiB", "--like", "cpu").fails(2, "--slices")
