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
    lowtide(*plan, "--latency", "5").fails(2, "--bandwidth")
    lowtide(*plan, "--slower-budget", "1GiB").fails(2, "--bandwidth")
