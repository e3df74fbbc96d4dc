"""`lowtide estimate`: the memory of a step before it runs."""

import pytest
from conftest import TINY

GPT3 = ["--transformer", "--layers", "32", "--width", "2560", "--heads", "32", "--vocabulary",
        "50257"]
SMALL_GPT = ["--layers", "2", "--width", "32", "--heads", "4", "--sequence", "16", "--vocabulary",
             "50", "--batch", "3"]


def test_a_model_of_the_zoo_takes_what_training_it_took(lowtide):
    """Measured op by op, and then all in one step."""
    recipe = TINY[:-2]  # without threads
    assert lowtide("graph", *recipe, "-o", "g.json").code == 0
    assert lowtide("profile", "g.json", "-o", "g.json", "--threads", "1").code == 0
    found = lowtide("estimate", "g.json", "--json").json
    trained = lowtide("train", *TINY, "--steps", "2", "--json").json
    assert found["peak_bytes"] == trained["keep_all_peak_bytes"]
    # Training also holds the states of generators, and gaps between addresses.
    assert found["in_place_peak_bytes"] == pytest.approx(trained["measured_peak_bytes"], rel=0.02)
    assert found["notes"] == ["Workspaces were measured."]


def test_parts_add_up(lowtide):
    found = lowtide("estimate", "--model", "gpt", *SMALL_GPT, "--optimizer", "adam", "--json").json
    assert sum(found["at_peak"].values()) == found["peak_bytes"]
    assert sum(found["by_layer"].values()) == found["whole"]["activations"]
    assert sum(found["by_kind"].values()) == found["whole"]["activations"]
    assert found["whole"]["parameters"] == 4 * found["parameters"]
    assert found["planned"] is None


def test_formulas_say_what_the_graph_says(lowtide):
    options = [*SMALL_GPT, "--optimizer", "adamw", "--precision", "bf16", "--json"]
    graph = lowtide("estimate", "--model", "gpt", *options).json
    formula = lowtide("estimate", "--transformer", *options).json
    assert formula["parameters"] == graph["parameters"]
    for part in ("parameters", "gradients", "activations"):
        assert formula["whole"][part] == pytest.approx(graph["whole"][part], abs=8)
    assert formula["peak_bytes"] == pytest.approx(graph["peak_bytes"], rel=0.03)


def test_the_textbook(lowtide):
    found = lowtide("estimate", *GPT3, "--sequence", "2000", "--batch", "500", "--precision",
                    "bf16", "--master-copy", "--checkpoints", "--json").json
    assert found["by_layer"]["inputs of the blocks"] / 2**30 == pytest.approx(152.59, abs=0.005)


def test_ranks_divide_the_state(lowtide):
    def whole(*options):
        return lowtide("estimate", *GPT3, "--sequence", "2048", "--optimizer", "adam", *options,
                       "--json").json["whole"]

    alone, sharded = whole(), whole("--ranks", "8", "--shard", "parameters")
    for part in ("parameters", "gradients", "optimizer state"):
        assert sharded[part] == pytest.approx(alone[part] / 8, abs=1)


def test_a_plan_within_a_budget(lowtide):
    found = lowtide("estimate", "--model", "gpt", *SMALL_GPT, "--budget", "80%", "--time-limit",
                    "0.3", "--json").json
    assert found["planned"]["peak_bytes"] <= found["planned"]["budget_bytes"]
    refused = lowtide("estimate", "--model", "gpt", *SMALL_GPT, "--budget", "1kB", "--time-limit",
                      "0.3")
    assert refused.code == 3


@pytest.mark.parametrize("arguments, words", [
    ([], "GRAPH.json, --model or --transformer"),
    (["--model", "gpt", "--transformer"], "give one of"),
    (["--model", "gpt", "--ranks", "8"], "--transformer"),
    ([*GPT3], "--sequence"),
    ([*GPT3, "--sequence", "9", "--ranks", "8"], "--shard"),
    ([*GPT3, "--sequence", "9", "--shard", "weights"], "weights"),
    ([*GPT3, "--sequence", "9", "--master-copy"], "--precision"),
    ([*GPT3, "--sequence", "9", "--budget", "1GiB"], "--model"),
    (["--transformer", "--layers", "0"], "--layers"),
    ([*GPT3, "--sequence", "9", "--micro-batches", "2"], "--micro-batches"),
    ([*GPT3, "--sequence", "9", "--state-type", "bf16"], "--state-type"),
    ([*GPT3, "--sequence", "9", "--strategy", "segments"], "--budget"),
    (["--model", "gpt", "--strategy", "segments"], "--budget"),
    (["--model", "gpt", "--time-limit", "3"], "--budget"),
    (["step.json", "--batch", "3"], "GRAPH.json"),
    (["--model", "gpt", "--optimizer", "lion"], "lion"),
])
def test_refusals_say_what_to_do(lowtide, arguments, words):
    lowtide("estimate", *arguments).fails(2, words)
