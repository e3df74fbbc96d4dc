"""`lowtide tune`: the ways to train a model within a budget, ranked."""

import pytest
from conftest import Lowtide

MLP = ["--model", "mlp", "--image", "8", "--layers", "4", "--width", "64", "--batch", "512",
       "--threads", "1"]
#: Gives the same plan on a busy machine.
TUNE = ["tune", *MLP, "--precisions", "f32", "--strategy", "lower-sets"]


@pytest.fixture(name="budget", scope="module")
def three_quarters_of_keep_all(tmp_path_factory, cache):
    lowtide = Lowtide(tmp_path_factory.mktemp("whole"), cache)
    found = lowtide("train", *MLP, "--steps", "1", "--json").json
    return int(0.75 * found["keep_all_peak_bytes"])


@pytest.fixture(name="found", scope="module")
def ranking(tmp_path_factory, cache, budget):
    done = Lowtide(tmp_path_factory.mktemp("tune"), cache)(*TUNE, "--budget", budget, "--json")
    assert done.code == 0, done.err
    return done.json


def test_the_ranking_is_by_what_steps_take(found, budget):
    ranked = found["ranked"]
    run = [one["step_seconds"] for one in ranked if one["step_seconds"] is not None]
    assert len(run) == 2 and run == sorted(run)
    planned = [one["predicted_step_seconds"] for one in ranked[2:] if one["fits"]]
    assert planned == sorted(planned)
    for one in ranked:
        assert one["why"]
        assert not one["fits"] or one["peak_bytes"] <= budget
    for one in ranked[:2]:
        assert one["measured_peak_bytes"] <= budget


def test_no_more_micro_batches_than_keep_every_value(found):
    kept = [one["why"] == "keeps every value" for one in found["ranked"]]
    assert sum(kept) == 1
    counts = {int(one["train_options"].split()[-1]) for one in found["ranked"]}
    assert counts == {2**power for power in range(len(counts))}


def test_train_takes_the_options_of_the_first(lowtide, found, budget):
    first = found["ranked"][0]
    done = lowtide("train", *MLP, "--strategy", "lower-sets", "--budget", budget, "--steps", "1",
                   *first["train_options"].split(), "--json")
    assert done.code == 0, done.err
    assert done.json["arena_bytes"] <= first["peak_bytes"] <= budget
    assert done.json["measured_peak_bytes"] <= budget


def test_the_table_names_the_first(lowtide, budget):
    done = lowtide(*TUNE, "--budget", budget, "--no-run")
    assert done.code == 0, done.err
    assert "The first: lowtide train, with the options that were given, and --precision f32" in (
        done.out)
    assert "note: f32: " in done.err


def changes(one):
    return sum(("bf16" in one["combination"], "micro-batches" in one["combination"]))


def test_the_goal_fits_changes_least(lowtide, budget):
    done = lowtide("tune", *MLP, "--strategy", "lower-sets", "--goal", "fits", "--no-run",
                   "--budget", budget, "--json")
    assert done.code == 0, done.err
    fitting = [one for one in done.json["ranked"] if one["fits"]]
    assert {changes(one) for one in fitting} >= {0, 1}
    assert [changes(one) for one in fitting] == sorted(changes(one) for one in fitting)
    for one in fitting:
        assert (one["results"] == "the same bits") == (changes(one) == 0)


def test_slices_are_a_change(lowtide):
    """Two micro-batches keep every value here, but in two slices: more micro-batches need none."""
    found = lowtide("tune", "--model", "gpt", "--batch", "4", "--layers", "1", "--width", "32",
                    "--heads", "2", "--sequence", "32", "--vocabulary", "2000", "--threads", "1",
                    "--precisions", "f32", "--goal", "fits", "--slices", "auto", "--no-run",
                    "--time-limit", "1", "--budget", "2200KiB", "--json").json["ranked"]
    changed = {one["combination"]: len(one["combination"].split(", ")) - 1 for one in found}
    assert changed == {"f32, 4 slices": 1, "f32, 4 micro-batches": 1,
                       "f32, 2 micro-batches, 2 slices": 2}
    order = [(changed[one["combination"]], one["predicted_step_seconds"]) for one in found]
    assert order == sorted(order)


def test_longer_steps_than_asked_for_come_behind(lowtide, budget, found):
    seconds = [one["predicted_step_seconds"] for one in found["ranked"] if one["fits"]]
    limit = sum(seconds) / len(seconds)
    done = lowtide(*TUNE, "--goal", "fits", "--step-seconds", limit, "--no-run",
                   "--budget", budget, "--json")
    longer = [one["predicted_step_seconds"] > limit for one in done.json["ranked"] if one["fits"]]
    assert set(longer) == {False, True} and longer == sorted(longer)


def test_a_number_of_micro_batches_that_is_given_stays(lowtide, budget):
    done = lowtide(*TUNE, "--micro-batches", "4", "--budget", budget, "--no-run", "--json")
    assert [one["combination"] for one in done.json["ranked"]] == ["f32, 4 micro-batches"]


def test_more_micro_batches_than_are_tried_may_be_given(lowtide):
    done = lowtide(*TUNE, "--micro-batches", "32", "--budget", "1GiB", "--no-run", "--json")
    assert [one["combination"] for one in done.json["ranked"]] == ["f32, 32 micro-batches"]


def test_more_slices_than_rows_are_refused(lowtide):
    lowtide("tune", *MLP, "--slices", "513", "--budget", "1GiB").fails(
        2, "a batch of 512 has 1 to 512 slices")


def test_before_the_first_is_planned_ctrl_c_ends_without_a_ranking(lowtide, tmp_path):
    done = lowtide.interrupted(*TUNE, "--budget", "1GiB", "--profile", tmp_path / "new",
                               when="profiling op")
    done.fails(4, "stopped")


def test_a_precision_that_is_named_twice_is_planned_once(lowtide, budget):
    done = lowtide("tune", *MLP, "--strategy", "lower-sets", "--precisions", "f32,f32",
                   "--micro-batches", "4", "--budget", budget, "--no-run", "--json")
    assert len(done.json["ranked"]) == 1


def test_with_a_disk_both_are_planned(lowtide, tmp_path, budget):
    done = lowtide("tune", *MLP, "--precisions", "f32", "--micro-batches", "2", "--disk", tmp_path,
                   "--budget", budget // 2, "--no-run", "--json", "--time-limit", "2")
    assert {one["combination"] for one in done.json["ranked"]} == {
        "f32, 2 micro-batches", "f32, 2 micro-batches, disk"}


def test_where_nothing_fits_the_smallest_budgets_are_named(lowtide):
    done = lowtide(*TUNE, "--budget", "20KiB", "--json")
    assert done.code == 3
    assert not any(one["fits"] for one in done.json["ranked"])
    assert "No combination fits." in lowtide(*TUNE, "--budget", "20KiB").out


@pytest.mark.parametrize("options, message", [
    (["--budget", "60%"], "--budget"),
    (["--budget", "1GiB", "--precisions", "int4"], "precision"),
    (["--budget", "1GiB", "--precisions", ",f32"], "precision"),
    (["--budget", "1GiB", "--goal", "cheapest"], "--goal must be fastest or fits"),
    (["--budget", "1GiB", "--step-seconds", "0"], "--step-seconds"),
])
def test_what_is_wrong_is_said(lowtide, options, message):
    done = lowtide(*TUNE[:-4], *options)
    assert done.code == 2 and message in done.err
