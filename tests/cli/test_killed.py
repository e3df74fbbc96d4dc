"""A process that is killed at any moment leaves whole files, and the next one works."""

import json
import random
import subprocess
import time

import pytest
from conftest import BINARY, TINY

SEEDS = range(2)


def started(lowtide, *arguments):
    return subprocess.Popen([BINARY, *map(str, arguments)], cwd=lowtide.folder, text=True,
                            env=lowtide.environment, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def killed(lowtide, seconds, *arguments):
    """Kills the command after so many seconds, unless it ended before."""
    process = started(lowtide, *arguments)
    time.sleep(seconds)
    process.kill()
    process.communicate(timeout=60)


def require_whole(folder):
    for path in folder.rglob("*.json"):
        json.loads(path.read_text())


@pytest.mark.parametrize("seed", SEEDS)
def test_while_it_trains_and_saves(lowtide, seed):
    """What was saved last is resumed from, bit for bit."""
    draw = random.Random(seed)
    assert lowtide("train", *TINY, "--steps", 2, "--save", "run.ckpt").code == 0
    for _ in range(3):
        killed(lowtide, draw.uniform(0.2, 1.2), "train", "--resume", "run.ckpt",
               "--save-every", 1, "--steps", 100_000_000)
    resumed = lowtide.interrupted("train", "--resume", "run.ckpt", "--steps", 100_000_000, "--json",
                                  when="step ").json
    assert resumed["first_step"] >= 2
    whole = lowtide("train", *TINY, "--steps", resumed["steps_done"], "--json").json
    assert resumed["losses"] == whole["losses"][resumed["first_step"]:]


@pytest.mark.parametrize("seed", SEEDS)
def test_while_it_measures_for_the_cache(lowtide, tmp_path, seed):
    lowtide.cache = tmp_path / "cache"
    draw = random.Random(seed)
    for _ in range(3):
        killed(lowtide, draw.uniform(0.05, 0.8), "train", *TINY, "--steps", 1)
        require_whole(lowtide.cache)
    assert lowtide("train", *TINY, "--steps", 1).code == 0
    require_whole(lowtide.cache)


@pytest.mark.parametrize("seed", SEEDS)
def test_while_it_writes_a_plan_over_an_older_one(lowtide, graph, seed):
    draw = random.Random(seed)
    plan = ["plan", graph, "--budget", "70%", "--time-limit", 0.1, "-o", "plan.json"]
    assert lowtide(*plan).code == 0
    for _ in range(8):
        killed(lowtide, draw.uniform(0.0, 0.2), *plan)
        assert lowtide("verify", graph, "plan.json").code == 0
    assert lowtide(*plan).code == 0


def test_two_at_the_same_time_with_one_empty_cache(lowtide, tmp_path):
    lowtide.cache = tmp_path / "cache"
    train = ["train", *TINY, "--steps", 3, "--budget", "70%", "--time-limit", 0.5, "--json"]
    both = [started(lowtide, *train) for _ in range(2)]
    ended = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    losses = [json.loads(out)["losses"] for out, _ in ended]
    assert losses[0] == losses[1]
    require_whole(lowtide.cache)
