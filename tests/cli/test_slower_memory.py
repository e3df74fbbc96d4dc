"""Plans and runs that move values to a disk."""

import json
import pathlib

import pytest

GRAPH = pathlib.Path(__file__).resolve().parents[2] / "data" / "graphs" / "torch-gpt.json"
GPT = ["--model", "gpt", "--layers", "3", "--width", "128", "--heads", "4", "--sequence", "128",
       "--batch", "8", "--vocabulary", "64", "--threads", "1", "--steps", "2"]


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def test_a_run_with_a_disk_has_the_bits_of_keep_all(lowtide, disk):
    done = lowtide("train", *GPT, "--budget", "60%", "--disk", disk, "--strategy", "offload",
                   "--time-limit", "2", "--check", "--plan-out", "p.json", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["bit_identical"] is True
    assert result["strategy"] == "offload"
    assert result["bytes_out"] > 0 and result["bytes_in"] > 0
    assert result["measured_peak_bytes"] <= result["budget_bytes"]
    assert list(disk.iterdir()) == []
    plan = json.loads((lowtide.folder / "p.json").read_text())
    assert plan["version"] == (3 if "residents" in plan else 2)
    assert sum(action[0] == "wait" for action in plan["actions"]) >= len(plan["copies"])


@pytest.mark.parametrize("way", [[], ["--strategy", "search"]])
def test_a_budget_without_room_for_copies_is_met_by_reruns(lowtide, disk, way):
    small = [*GPT, "--width", "32", "--sequence", "32"]
    done = lowtide("train", *small, "--budget", "70%", "--disk", disk, "--time-limit", "1",
                   "--check", "--json", *way)
    assert done.code == 0, done.err
    result = done.json
    assert result["bit_identical"] is True and result["bytes_out"] == 0
    assert result["measured_peak_bytes"] <= result["budget_bytes"] < 8 * 2**20
    moved = lowtide("train", *small, "--budget", "70%", "--disk", disk, "--strategy", "offload")
    moved.fails(3, "buffers", "8.00 MiB")


def measured_disk(lowtide):
    """The only one, as tests have a cache of their own."""
    places = lowtide("devices", "--json").json["slower_memory"]
    disk, = (place for place in places if place["medium"] != "memory of this machine")
    return disk


def test_a_disk_is_measured_once_and_listed(lowtide, disk):
    run = ["train", *GPT, "--budget", "80%", "--disk", disk, "--time-limit", "0.5"]
    assert lowtide(*run, "--measure-again").code == 0
    first = measured_disk(lowtide)
    assert lowtide(*run).code == 0
    assert measured_disk(lowtide) == first
    assert first["medium"] in lowtide("devices").out
    assert first["out"]["bytes_per_second"] >= 0 and first["in"]["latency_seconds"] >= 0
    assert lowtide(*run, "--measure-again").code == 0
    again = measured_disk(lowtide)
    assert again["medium"] == first["medium"] and again != first


def test_what_a_disk_cannot_give_is_said(lowtide, disk, tmp_path):
    run = ["train", *GPT, "--budget", "60%"]
    lowtide(*run, "--disk", tmp_path / "absent").fails(2, "absent")
    lowtide(*run, "--disk", disk, "--memory", "pool").fails(2, "--memory static")
    lowtide(*run, "--disk", disk, "--strategy", "dtr").fails(2, "dtr", "offload")
    lowtide(*run, "--disk-budget", "1GiB").fails(2, "--disk FOLDER")
    lowtide("train", *GPT, "--disk", disk).fails(2, "--budget")


def test_a_plan_for_a_bandwidth(lowtide):
    plan = ["plan", GRAPH, "--budget", "60%", "--time-limit", "1", "--json"]
    moved = lowtide(*plan, "--bandwidth", "20GB/s,10GB/s", "--latency", "20", "-o", "p.json")
    assert moved.code == 0, moved.err
    assert moved.json["overhead"] < 0.01
    assert lowtide("verify", GRAPH, "p.json").code == 0
    slow = lowtide(*plan, "--bandwidth", "1MB/s").json
    assert slow["overhead"] >= moved.json["overhead"]


@pytest.mark.parametrize("rule", ["capuchin", "save-on-cpu"])
def test_rules_of_others_are_timed_by_the_same_lanes(lowtide, rule):
    plan = ["plan", GRAPH, "--bandwidth", "2GB/s", "--time-limit", "1", "--json"]
    theirs = lowtide(*plan, "--budget", "70%", "--strategy", rule, "-o", "p.json").json
    assert lowtide("verify", GRAPH, "p.json").code == 0
    ours = lowtide(*plan, "--budget", "70%").json
    assert ours["cost"] <= theirs["cost"] * (1 + 1e-9)
    assert ours["lower_bound"] <= theirs["cost"] * (1 + 1e-9)
    small = lowtide(*plan, "--budget", "10%", "--strategy", rule)
    small.fails(3, rule, "needs")


def test_the_program_of_poet_plans_small_graphs(lowtide):
    small = ["--model", "gpt", "--layers", "1", "--batch", "4", "--width", "64", "--sequence", "32"]
    assert lowtide("graph", *small, "-o", "g.json").code == 0
    plan = ["--bandwidth", "2GB/s", "--strategy", "poet", "--time-limit", "2", "--json"]
    theirs = lowtide("plan", "g.json", "--budget", "70%", *plan, "-o", "p.json")
    assert theirs.code == 0, theirs.err
    assert theirs.json["strategy"] == "poet"
    assert theirs.json["arena_bytes"] <= theirs.json["budget_bytes"]
    assert theirs.json["lower_bound"] <= theirs.json["cost"] * (1 + 1e-9)
    assert lowtide("verify", "g.json", "p.json").code == 0
    assert json.loads((lowtide.folder / "p.json").read_text())["copies"]
    lowtide("plan", "g.json", "--budget", "20%", *plan).fails(3, "poet", "at least")
    lowtide("plan", GRAPH, "--budget", "60%", *plan).fails(2, "rows", "capuchin")


def test_a_bound_for_plans_that_move_has_a_certificate(lowtide):
    plan = ["plan", GRAPH, "--budget", "50%", "--time-limit", "1", "--json", "-o", "p.json"]
    moved = lowtide(*plan, "--bandwidth", "2GB/s", "--certificate", "c.json").json
    assert moved["lower_bound"] <= moved["cost"] * (1 + 1e-9)
    checked = lowtide("certify", GRAPH, "p.json", "c.json", "--json")
    assert checked.code == 0, checked.err
    assert checked.json["lower_bound"] == pytest.approx(moved["lower_bound"], rel=1e-6)
    proof = lowtide.folder / "c.json"
    other = json.loads(proof.read_text())
    other["moves"]["lane_in"][1] *= 2
    other["lower_bound"] = 0
    proof.write_text(json.dumps(other))
    lowtide("certify", GRAPH, "p.json", "c.json").fails(2, "wrong_lanes")


def test_what_is_no_bandwidth_is_refused(lowtide):
    plan = ["plan", GRAPH, "--budget", "60%"]
    lowtide(*plan, "--bandwidth", "20GB").fails(2, "20GB/s")
    lowtide(*plan, "--bandwidth", "0GB/s").fails(2, "--bandwidth")
    for typed in ("1GB/s,2GB/s,3GB/s", "1GB/s,", "1GB/s,fast"):
        lowtide(*plan, "--bandwidth", typed).fails(2, f'not "{typed}"')
    lowtide(*plan, "--latency", "5").fails(2, "--bandwidth")
    lowtide(*plan, "--slower-budget", "1GiB").fails(2, "--bandwidth")


ADAM = ["--model", "gpt", "--layers", "4", "--width", "256", "--heads", "4", "--sequence", "32",
        "--batch", "2", "--vocabulary", "256", "--threads", "1", "--optimizer", "adam"]
# Of that model: parameters and optimizer state take 40 MiB, the buffers of the disk 8 MiB.
LESS_THAN_ITS_STATE = "30MiB"


def resident_bytes(graph):
    tensors = json.loads(graph.read_text())["tensors"]
    return sum(tensor["bytes"] for tensor in tensors if tensor["kind"] == "resident")


def test_a_model_whose_parameters_and_state_exceed_the_budget_trains(lowtide, disk):
    run = ["train", *ADAM, "--budget", LESS_THAN_ITS_STATE, "--disk", disk, "--time-limit", "3"]
    done = lowtide(*run, "--steps", "3", "--check", "--save", "run.ckpt", "--plan-out", "p.json",
                   "--graph-out", "g.json", "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["bit_identical"] is True
    assert result["measured_peak_bytes"] <= result["budget_bytes"] < 30 * 2**20 + 1
    assert resident_bytes(lowtide.folder / "g.json") > result["budget_bytes"]
    assert result["bytes_out"] > 0
    assert list(disk.iterdir()) == []
    plan = json.loads((lowtide.folder / "p.json").read_text())
    assert plan["version"] == 3 and plan["residents"]
    assert lowtide("verify", "g.json", "p.json").code == 0
    # Another step from the checkpoint is the fourth of a run in full memory.
    more = lowtide("train", "--resume", "run.ckpt", "--steps", "4", "--json").json
    whole = lowtide("train", *ADAM, "--steps", "4", "--json").json
    assert more["losses"][-1] == whole["losses"][-1]


def test_a_disk_that_is_too_small_for_the_state_is_no_use(lowtide, disk):
    run = ["train", *ADAM, "--budget", LESS_THAN_ITS_STATE, "--disk", disk, "--time-limit", "1"]
    refused = lowtide(*run, "--disk-budget", "1MiB", "--steps", "1", "--json")
    assert refused.code == 3
    assert refused.json["floor_bytes"] < 30 * 2**20


def test_below_the_floor_the_refusal_names_what_a_model_on_a_disk_needs(lowtide, disk):
    run = ["train", *ADAM, "--disk", disk, "--time-limit", "1", "--steps", "1"]
    refused = lowtide(*run, "--budget", "9MiB", "--json")
    assert refused.code == 3
    floor = refused.json["floor_bytes"]
    assert 9 * 2**20 < floor < 20 * 2**20
    assert f"({floor} bytes) at least" in refused.json["error"]


def test_a_plan_that_moves_residents_has_a_certificate(lowtide, disk):
    made = lowtide("graph", *ADAM[:12], "--optimizer", "adam", "-o", "g.json")
    assert made.code == 0, made.err
    graph = ["plan", "g.json", "--budget", "30%", "--time-limit", "2", "--json"]
    moved = lowtide(*graph, "--bandwidth", "20GB/s", "-o", "p.json", "--certificate", "c.json")
    assert moved.code == 0, moved.err
    assert json.loads((lowtide.folder / "c.json").read_text())["moves"]["residents"] is True
    checked = lowtide("certify", "g.json", "p.json", "c.json", "--json")
    assert checked.code == 0, checked.err
    proof = lowtide.folder / "c.json"
    other = json.loads(proof.read_text())
    del other["moves"]["residents"]
    other["lower_bound"] = 0
    proof.write_text(json.dumps(other))
    lowtide("certify", "g.json", "p.json", "c.json").fails(2, "moves residents")


FORWARD = ["run", *ADAM[:-2], "--time-limit", "2", "--json"]


def test_a_forward_pass_streams_the_weights_of_a_model_larger_than_the_budget(lowtide, disk):
    done = lowtide(*FORWARD, "--budget", "12MiB", "--disk", disk, "--check", "--batches", "2",
                   "--graph-out", "g.json")
    assert done.code == 0, done.err
    result = done.json
    assert result["bit_identical"] is True
    assert result["output"]["shape"] == [2, 32, 256]
    assert result["measured_peak_bytes"] <= result["budget_bytes"]
    assert resident_bytes(lowtide.folder / "g.json") > result["budget_bytes"]
    assert result["bytes_in"] > 0
    whole = lowtide(*FORWARD, "--batches", "2").json
    assert whole["output"] == result["output"] and whole["bytes_in"] == 0


def test_a_forward_pass_takes_the_weights_of_a_checkpoint(lowtide, disk):
    train = ["train", *ADAM, "--steps", "2", "--save", "run.ckpt"]
    assert lowtide(*train).code == 0
    passes = [lowtide(*FORWARD, "--weights", "run.ckpt", *where).json["output"]["hash"]
              for where in ([], ["--budget", "12MiB", "--disk", disk])]
    assert passes[0] == passes[1]
    assert passes[0] != lowtide(*FORWARD).json["output"]["hash"]
    lowtide("run", "--model", "mlp", "--weights", "run.ckpt").fails(2, "another model")
    lowtide("run", "--model", "mlp", "--disk", disk).fails(2, "--budget")
