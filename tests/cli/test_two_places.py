"""Plans and runs that move values to memory of the host and to a disk."""

import json
import pathlib
import re

import pytest

GRAPH = pathlib.Path(__file__).resolve().parents[2] / "data" / "graphs" / "torch-unet.json"
GPT = ["--model", "gpt", "--layers", "3", "--width", "128", "--heads", "4", "--sequence", "128",
       "--batch", "8", "--vocabulary", "64", "--threads", "1", "--steps", "2",
       "--optimizer", "adam", "--time-limit", "0.3"]
MIB = 2**20


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def places_of(plan):
    """Bytes of the first place and of the second, by the copies."""
    graph = json.loads(GRAPH.read_text())
    begin = plan["second_place"]["begin"]
    ends = [offset + graph["tensors"][tensor]["bytes"] for tensor, offset in plan["copies"]]
    offsets = [offset for _, offset in plan["copies"]]
    first = max((end for end, at in zip(ends, offsets) if at < begin), default=0)
    second = max((end - begin for end, at in zip(ends, offsets) if at >= begin), default=0)
    return first, second


def test_a_plan_uses_the_disk_beyond_the_budget_of_the_host(lowtide):
    plan = ["plan", GRAPH, "--budget", "40%", "--time-limit", "3", "--strategy", "offload"]
    host = ["--host-bandwidth", "20GB/s", "--host-latency", "10", "--host-budget", "64MiB"]
    slow = ["--disk-bandwidth", "400MB/s,300MB/s", "--disk-latency", "100", "--disk-budget", "4GiB"]
    uses_both = r"[\d.]+ [KM]iB of the host's memory and [\d.]+ [KMG]iB of the disk"
    for _ in range(3):  # where the clock cuts the planning short, a plan may do without the host
        both = lowtide(*plan, *host, *slow, "-o", "p.json", "--certificate", "c.json")
        assert both.code == 0, both.err
        if re.search(uses_both, both.out):
            break
    assert re.search(uses_both, both.out)
    file = lowtide.folder / "p.json"
    found = json.loads(file.read_text())
    assert found["version"] == 4
    first, second = places_of(found)
    assert 0 < first <= 64 * MIB and 0 < second <= 4096 * MIB
    assert found["second_place"]["begin"] == first
    assert found["second_place"]["budgets"] == [64 * MIB, 4096 * MIB]
    assert lowtide("verify", GRAPH, "p.json").code == 0
    assert lowtide("certify", GRAPH, "p.json", "c.json").code == 0
    found["second_place"]["budgets"] = [first, second - 1]
    file.write_text(json.dumps(found))
    lowtide("verify", GRAPH, "p.json").fails(2, "place_over_budget", "its budget is")


def test_a_run_in_two_places_has_the_bits_of_keep_all(lowtide, disk):
    done = lowtide("train", *GPT, "--budget", "45%", "--disk", disk, "--disk-budget", "1GiB",
                   "--host-budget", "4MiB", "--host-bandwidth", "10GB/s", "--host-latency", "20",
                   "--check", "--plan-out", "p.json", "--graph-out", "g.json", "--save", "run.ckpt",
                   "--json")
    assert done.code == 0, done.err
    result = done.json
    assert result["bit_identical"] is True
    assert result["bytes_out"] > 0
    assert result["measured_peak_bytes"] <= result["budget_bytes"]
    assert list(disk.iterdir()) == []
    plan = json.loads((lowtide.folder / "p.json").read_text())
    assert plan["version"] == 4
    assert plan["second_place"]["begin"] <= 4 * MIB
    assert lowtide("verify", "g.json", "p.json").code == 0
    more = lowtide("train", "--resume", "run.ckpt", "--steps", "3", "--json").json
    whole = lowtide("train", *GPT[:-2], "--steps", "3", "--json").json
    assert more["losses"][-1] == whole["losses"][-1]


def test_the_host_alone_needs_no_buffers(lowtide):
    done = lowtide("train", *GPT, "--budget", "60%", "--host-budget", "1GiB", "--strategy",
                   "offload", "--check", "--json")
    assert done.code == 0, done.err
    assert done.json["bit_identical"] is True and done.json["bytes_in"] > 0
    passes = lowtide("run", *GPT[:14], "--budget", "60%", "--host-budget", "1GiB",
                     "--host-bandwidth", "5GB/s", "--time-limit", "0.3", "--check", "--json")
    assert passes.code == 0, passes.err
    assert passes.json["bit_identical"] is True


def test_what_is_no_place_is_refused(lowtide, disk):
    plan = ["plan", GRAPH, "--budget", "60%"]
    lowtide(*plan, "--host-budget", "1GiB").fails(2, "--host-bandwidth SPEED")
    lowtide(*plan, "--disk-latency", "5").fails(2, "--disk-bandwidth SPEED")
    lowtide(*plan, "--disk-bandwidth", "5").fails(2, "--disk-bandwidth must be such as")
    lowtide(*plan, "--bandwidth", "1GB/s", "--disk-bandwidth", "5GB/s").fails(2, "for one place")
    run = ["train", *GPT]
    lowtide(*run, "--host-budget", "1GiB").fails(2, "--host-budget needs --budget")
    lowtide(*run, "--budget", "60%", "--host-bandwidth", "1GB/s").fails(2, "--host-budget BYTES")
    lowtide(*run, "--budget", "60%", "--host-budget", "1GiB", "--host-latency", "5").fails(
        2, "--host-bandwidth SPEED")
    lowtide(*run, "--budget", "60%", "--host-budget", "1GiB", "--memory", "pool").fails(
        2, "--memory static")
    lowtide(*run, "--budget", "60%", "--host-budget", "1GiB", "--disk", disk / "absent").fails(
        2, "absent")
    lowtide(*run, "--budget", "60%", "--host-budget", "9000TiB", "--disk", disk,
            "--strategy", "dtr").fails(2, "dtr")
