"""`lowtide parallel`: where a model runs on a cluster."""

import json

import pytest
from conftest import ROOT

GPT = ["--transformer", "--layers", "4", "--width", "256", "--heads", "4", "--vocabulary", "500",
       "--sequence", "128", "--optimizer", "adam", "--precision", "bf16"]
GPT_175B = ["--transformer", "--layers", "96", "--width", "12288", "--heads", "96", "--vocabulary",
            "50257", "--sequence", "2048", "--optimizer", "adam", "--precision", "bf16"]
THOUSAND = str(ROOT / "data/clusters/a100-128x8.json")
ONE_CPU = str(ROOT / "data/clusters/one-cpu.json")


@pytest.fixture
def four(lowtide):
    """A cluster of two nodes of two devices, as a file."""
    link = {"bytes_per_second": 1e11}
    (lowtide.folder / "four.json").write_text(json.dumps({
        "format": "lowtide-cluster", "version": 1, "devices_per_node": 2,
        "nodes": [{"count": 2, "device": "a100"}], "within_node": link, "between_nodes": link}))
    return "four.json"


def test_a_model_of_175_billion_parameters_on_1024_devices(lowtide):
    found = lowtide("parallel", *GPT_175B, "--cluster", THOUSAND, "--global-batch", "1536",
                    "--tensor", "8", "--pipeline", "16", "--json").json
    best = found["best"]
    assert (best["data"], best["tensor"], best["pipeline"]) == (8, 8, 16)
    assert found["status"] == "complete"
    assert found["least_seconds"] <= best["step_seconds"]
    assert 0.4 < best["flop_utilisation"] < 0.6
    assert len(best["stages"]) == 16
    for stage in best["stages"]:
        assert stage["memory_bytes"] == sum(stage["memory"].values())
        assert stage["memory_bytes"] <= stage["available_bytes"] == 76_000_000_000
    blocks = [sum(plan["count"] for plan in stage["plans"] if plan["unit"] == "block")
              for stage in best["stages"]]
    assert sum(blocks) == 96


def test_the_table_says_what_the_document_says(lowtide, four):
    arguments = ["parallel", *GPT, "--cluster", four, "--global-batch", "16"]
    best = lowtide(*arguments, "--json").json["best"]
    text = lowtide(*arguments).out
    assert f"data {best['data']} x tensor {best['tensor']}" in text
    for word in ("activations kept", "optimizer state", "model FLOP utilisation", "other widths",
                 "No placement takes less"):
        assert word in text


def test_what_is_fixed_is_kept(lowtide, four):
    best = lowtide("parallel", *GPT, "--cluster", four, "--global-batch", "16", "--data", "2",
                   "--pipeline", "2", "--micro-batch", "2", "--schedule", "gpipe", "--zero", "1",
                   "--json").json["best"]
    assert (best["data"], best["tensor"], best["pipeline"]) == (2, 1, 2)
    assert (best["micro_batch"], best["micro_batches"]) == (2, 4)
    assert (best["schedule"], best["zero"], best["zero_within_node"]) == ("gpipe", 1, False)
    assert [stage["in_flight"] for stage in best["stages"]] == [4, 4]


def test_bytes_of_a_parameter(lowtide, four):
    def state(*options):
        return lowtide("parallel", *GPT, "--cluster", four, "--global-batch", "16", *options,
                       "--json").json["state_bytes"]

    assert state("--wide-gradients") * 16 == state() * 18


def test_a_model_of_the_zoo_takes_what_training_it_takes(lowtide):
    """Without workspaces, which were not measured: those of this model are small."""
    model = ["--model", "gpt", "--layers", "2", "--width", "64", "--heads", "4", "--sequence", "64",
             "--optimizer", "adam"]
    found = lowtide("parallel", *model, "--cluster", ONE_CPU, "--global-batch", "8",
                    "--micro-batch", "8", "--json").json["best"]
    trained = lowtide("train", *model, "--batch", "8", "--steps", "2", "--threads", "1",
                      "--json").json
    assert found["most_memory_bytes"] == pytest.approx(trained["measured_peak_bytes"], rel=0.02)


def test_a_graph_is_divided_at_its_layers(lowtide, four):
    assert lowtide("graph", "--model", "gpt", "--layers", "6", "--batch", "8", "-o",
                   "g.json").code == 0
    found = lowtide("parallel", "g.json", "--cluster", four, "--global-batch", "8", "--pipeline",
                    "2", "--json").json
    assert found["units"] >= 7
    first, second = found["best"]["stages"]
    assert first["units"][0][1] + 1 == second["units"][0][0]


def test_the_smallest_memory_that_is_named_does(lowtide):
    def place(memory):
        (lowtide.folder / "small.json").write_text(json.dumps({
            "format": "lowtide-cluster", "version": 1, "devices_per_node": 1,
            "nodes": [{"count": 2, "device": "a100", "memory_bytes": memory}],
            "between_nodes": {"bytes_per_second": 1e10}}))
        return lowtide("parallel", *GPT, "--cluster", "small.json", "--global-batch", "4")

    refused = place(1000).fails(3, "smallest memory")
    named = int(refused.err.split("(")[1].split(" bytes")[0])
    assert place(named).code == 0
    place(named - 1).fails(3, str(named))


def test_ctrl_c_ends_it(lowtide):
    stopped = lowtide.interrupted("parallel", *GPT_175B, "--cluster", THOUSAND, "--global-batch",
                                  "1536", "--json", when="placement")
    assert stopped.code == 4
    assert stopped.json["status"] == "stopped"


@pytest.mark.parametrize("arguments, words", [
    ([], "GRAPH.json, --model or --transformer"),
    (["--model", "gpt", "--transformer"], "give one of"),
    (["--model", "gpt", "--batch", "3"], "--global-batch"),
    (["--model", "gpt", "--wide-gradients"], "--transformer"),
    (["--model", "gpt", "--as-given"], "GRAPH.json"),
    ([*GPT, "--schedule", "zero-bubble"], "interleaved"),
    ([*GPT, "--state-type", "bf16"], "--wide-gradients"),
    ([*GPT, "--zero", "4"], "3-node"),
    ([*GPT, "--zero", "0-node"], "3-node"),
    ([*GPT, "--tensor", "3"], "--tensor"),
    ([*GPT, "--micro-batch", "5"], "--micro-batch"),
    ([*GPT, "--global-batch", "1000000000000", "--micro-batch", "250000000000", "--data", "4"],
     "more bytes than can be counted"),
    (["--transformer", "--layers", "4"], "--width"),
])
def test_refusals_of_placements_say_what_to_do(lowtide, four, arguments, words):
    batch = [] if "--global-batch" in arguments else ["--global-batch", "16"]
    lowtide("parallel", "--cluster", four, *batch, *arguments).fails(2, words)


def test_a_file_that_is_no_cluster_is_refused(lowtide):
    (lowtide.folder / "bad.json").write_text('{"format": "lowtide-graph"}')
    for name, words in (("bad.json", "lowtide-cluster"), ("none.json", "none.json")):
        lowtide("parallel", *GPT, "--global-batch", "8", "--cluster", name).fails(2, words)
