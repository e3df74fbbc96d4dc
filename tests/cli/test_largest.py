"""`lowtide max-batch` and `max-length`: the largest size within a budget."""

import pytest
from conftest import Lowtide

MLP = ["--model", "mlp", "--image", "8", "--layers", "4", "--width", "32", "--dropout", "0.1",
       "--threads", "1"]
GPT = ["--model", "gpt", "--layers", "2", "--width", "32", "--heads", "4", "--vocabulary", "50",
       "--batch", "2", "--threads", "1"]
BUDGET = 400_000
#: Gives the same plan on a busy machine.
SEARCH = ["max-batch", *MLP, "--budget", BUDGET, "--strategy", "lower-sets"]


@pytest.fixture(scope="module")
def found(tmp_path_factory, cache):
    """The largest batch of a tiny MLP, as JSON, with what was said on the way."""
    lowtide = Lowtide(tmp_path_factory.mktemp("largest"), cache)
    done = lowtide(*SEARCH, "--json")
    assert done.code == 0, done.err
    return done


def trained(lowtide, options, budget):
    return lowtide("train", *options, "--budget", budget, "--steps", "1", "--strategy",
                   "lower-sets", "--json")


def test_the_largest_batch_trains_and_the_next_does_not(lowtide, found):
    result = found.json
    assert result["status"] == "complete" and result["evidence"] == "run"
    assert result["run"]["measured_peak_bytes"] <= BUDGET
    assert result["plan"]["arena_bytes"] <= BUDGET
    assert result["too_large"]["size"] == result["size"] + 1
    done = trained(lowtide, [*MLP, "--batch", result["size"]], BUDGET)
    assert done.code == 0, done.err
    assert done.json["measured_peak_bytes"] <= BUDGET
    assert trained(lowtide, [*MLP, "--batch", result["size"] + 1], BUDGET).code == 3


def test_each_size_that_is_tried_is_told(found):
    trials = found.json["trials"]
    assert trials[0]["evidence"] == "bound" and trials[0]["why_not"]
    for trial in trials[1:]:
        verdict = "fits" if trial["fits"] else "is not found to fit"
        assert f"note: a batch of {trial['size']} {verdict}" in found.err
    for trial in trials:
        assert trial["fits"] == (trial["size"] <= found.json["size"]) or (
            trial["evidence"] == "estimated")
        assert (trial["run"] is not None) == (trial["evidence"] == "run")


def test_the_error_of_the_interpolation_is_told(found):
    error = found.json["interpolation"]
    assert set(error) == {"step", "median_op", "peak"}
    assert abs(error["peak"]) < 0.05  # bytes are no matter of noise


def test_the_table_says_the_same(lowtide, found):
    done = lowtide(*SEARCH)
    assert done.code == 0, done.err
    assert f" {found.json['size']}\n" in done.out
    assert "a step ran in" in done.out and "interpolated" in done.out


def test_less_extra_time_gives_a_smaller_batch(lowtide, found):
    sizes = {}
    for extra in ("0%", "forward"):
        done = lowtide(*SEARCH, "--extra-time", extra, "--no-run", "--json")
        assert done.code == 0, done.err
        assert done.json["evidence"] == "measured" and done.json["run"] is None
        assert done.json["extra_time"] == extra
        sizes[extra] = done.json["size"]
        if extra == "0%":
            assert done.json["plan"]["overhead"] <= 1e-9
    assert 0 < sizes["0%"] < sizes["forward"] <= found.json["size"]


def test_the_longest_sequence(lowtide):
    done = lowtide("max-length", *GPT, "--budget", "3MB", "--multiple", "8", "--strategy",
                   "lower-sets", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["what"] == "length" and result["size"] % 8 == 0
    assert result["run"]["measured_peak_bytes"] <= 3_000_000
    assert result["too_large"]["size"] == result["size"] + 8
    longer = [*GPT, "--sequence", result["size"] + 8]
    assert trained(lowtide, longer, "3MB").code == 3


def test_sequences_of_other_ops_are_measured(lowtide):
    """An unrolled LSTM has more ops where its sequences are longer."""
    done = lowtide("max-length", "--model", "lstm", "--width", "16", "--layers", "1",
                   "--vocabulary", "50", "--batch", "2", "--threads", "1", "--budget", "300kB",
                   "--limit", "64", "--time-limit", "10", "--json")
    assert done.code == 0, done.err
    assert done.json["evidence"] == "run" and done.json["run"]["measured_peak_bytes"] <= 300_000


def test_the_default_strategy(lowtide, found):
    """With reruns that the other one does not find, larger batches may fit."""
    done = lowtide("max-batch", *MLP, "--budget", BUDGET, "--time-limit", "8", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["plan"]["strategy"] == "search" and result["evidence"] == "run"
    assert result["run"]["measured_peak_bytes"] <= BUDGET
    assert result["too_large"]["size"] == result["size"] + 1
    assert result["size"] > 0.9 * found.json["size"]


def test_another_device_is_planned_for_and_not_run(lowtide):
    done = lowtide(*SEARCH, "--like", "h100", "--json")
    assert done.code == 0, done.err
    assert done.json["evidence"] == "estimated" and done.json["run"] is None
    assert done.json["costs"] == "estimates, like NVIDIA H100 SXM 80GB"
    assert done.json["too_large"]["size"] == done.json["size"] + 1


def test_micro_batches_divide_the_batch(lowtide):
    done = lowtide(*SEARCH, "--micro-batches", "3", "--json")
    assert done.code == 0, done.err
    assert done.json["size"] % 3 == 0
    assert done.json["too_large"]["size"] == done.json["size"] + 3


def test_all_sizes_up_to_the_limit_may_fit(lowtide):
    done = lowtide("max-batch", *MLP, "--budget", "1GB", "--limit", "20", "--time-limit", "5",
                   "--json")
    assert done.code == 0, done.err
    assert done.json["size"] == 20 and done.json["too_large"] is None


def test_too_small_a_budget_for_any_size(lowtide):
    done = lowtide("max-batch", *MLP, "--budget", "50kB", "--time-limit", "2", "--json")
    done.fails(3, "infeasible")
    assert done.json["status"] == "infeasible" and done.json["floor_bytes"] > 50_000


def test_a_stop_keeps_the_best_so_far(lowtide):
    slow = ["--extra-time", "forward", "--time-limit", "40"]
    done = lowtide.interrupted("max-batch", *MLP, "--budget", BUDGET, *slow, "--json",
                               when=" fits, by estimates")
    assert done.code == 4, done.err
    result = done.json
    assert result["status"] == "stopped" and result["evidence"] == "estimated"
    assert f"a batch of {result['size']} fits" in done.err
    assert result["plan"]["arena_bytes"] <= BUDGET


def test_a_stop_before_any_size_fits(lowtide, tmp_path):
    lowtide.cache = tmp_path / "empty"
    done = lowtide.interrupted("max-batch", "--model", "resnet50", "--image", "64", "--threads",
                               "1", "--budget", "500MB", "--json", when="profiling op")
    done.fails(4, "stopped while profiling")


@pytest.mark.parametrize("arguments, words", [
    (["--model", "mlp"], "--budget"),
    (["--budget", "1GB"], "--model"),
    (["--model", "mlp", "--budget", "60%"], '--budget "60%" is a share'),
    (["--model", "mlp", "--budget", "1GB", "--batch", "3"], "--start"),
    (["--model", "mlp", "--budget", "1GB", "--start", "9", "--limit", "8"], "--limit"),
    (["--model", "mlp", "--budget", "1GB", "--start", "9", "--limit", "15", "--multiple", "8"],
     "multiple of 8"),
    (["--model", "mlp", "--budget", "1GB", "--micro-batches", "auto"], "--micro-batches"),
    (["--model", "mlp", "--budget", "1GB", "--extra-time", "much"], "forward"),
    (["--model", "mlp", "--budget", "1GB", "--strategy", "serch"], "search"),
])
def test_refusals_say_what_to_do(lowtide, arguments, words):
    lowtide("max-batch", *arguments).fails(2, words)


def test_no_share_is_proposed_where_only_bytes_make_sense(lowtide):
    for command in ("max-batch", "tune"):
        refused = lowtide(command, "--model", "mlp", "--budget", "0")
        refused.fails(2, '--budget "0" leaves no memory', "512MB")
        assert "%" not in refused.err


def test_a_device_that_is_not_known(lowtide):
    refused = lowtide("max-batch", "--model", "mlp", "--budget", "1GB", "--like", "h20")
    assert refused.code == 2 and 'Did you mean "h200"' in refused.err


def test_a_model_without_sequences_is_refused(lowtide):
    lowtide("max-length", "--model", "resnet50", "--budget", "1GB").fails(2, "sequence")
