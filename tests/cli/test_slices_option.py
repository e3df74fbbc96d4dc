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


def test_a_number_is_chosen_where_plans_are_made(lowtide):
    train = ["train", *HEAD, *ONE_THREAD, "--budget", BUDGET, "--steps", "1", "--json"]
    done = lowtide(*train, "--slices", "auto")
    assert done.code == 0, done.err
    assert done.json["slices"] > 1
    for command in (["graph", *HEAD, "-o", "g.json"], ["max-length", "--model", "gpt", "--budget",
                                                       BUDGET]):
        lowtide(*command, "--slices", "auto").fails(2, "--slices auto", "lowtide train")


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
