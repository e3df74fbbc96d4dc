"""Ctrl-C in any phase ends with what was reached, and exit code 4."""

import signal

from conftest import TINY

LARGE = ["--model", "resnet50", "--batch", "2", "--image", "64", "--threads", "1"]


def test_during_training(lowtide):
    done = lowtide.interrupted("train", *TINY, "--steps", "100000000", "--save", "run.ckpt",
                               "--json", when="step ")
    assert done.code == 4, done.err
    result = done.json
    assert result["status"] == "stopped" and result["steps_done"] == len(result["losses"]) > 0
    total = result["steps_done"] + 2
    resumed = lowtide("train", "--resume", "run.ckpt", "--steps", total, "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["first_step"] == result["steps_done"] and len(resumed.json["losses"]) == 2


def test_during_profiling(lowtide, tmp_path):
    lowtide.cache = tmp_path / "empty"
    done = lowtide.interrupted("train", *LARGE, "--json", when="profiling op")
    done.fails(4, "stopped while profiling")
    assert done.json["status"] == "stopped"


def test_a_second_one_kills(lowtide):
    done = lowtide.interrupted("train", *TINY, "--steps", "100000000", "--check",
                               when="keep-all", times=2)
    assert done.code in (4, -signal.SIGINT)  # 4 when the first was served before the second came


def test_during_planning(lowtide, graph):
    budgets = ",".join(f"{i / 10}%" for i in range(600, 1000))
    done = lowtide.interrupted("compare", graph, "--budgets", budgets, "--json", when=" at ")
    assert done.code == 4, done.err
    assert done.json["status"] == "stopped"
    assert len(done.json["rows"]) < 400 * 5
