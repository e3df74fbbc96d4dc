"""Ctrl-C in any phase ends with what was reached, and exit code 4."""

import os
import signal
import subprocess

import pytest
from conftest import BINARY, TINY

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


def test_when_nobody_reads_the_output_any_more(lowtide, tmp_path):
    """As with `| head -1`: the run is saved."""
    checkpoint = tmp_path / "run.ckpt"
    command = [BINARY, "train", *TINY, "--steps", "100000", "--save", str(checkpoint)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=lowtide.environment)
    _read_to_a_step(running)
    running.stdout.close()
    running.wait(timeout=120)
    assert checkpoint.exists()


def test_by_a_terminal_that_is_closed(lowtide, tmp_path):
    checkpoint = tmp_path / "run.ckpt"
    command = [BINARY, "train", *TINY, "--steps", "100000", "--save", str(checkpoint)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=lowtide.environment)
    _read_to_a_step(running)
    running.send_signal(signal.SIGHUP)
    running.communicate(timeout=120)
    assert checkpoint.exists()


def _read_to_a_step(running):
    while "step " not in running.stdout.readline():
        assert running.poll() is None


def test_while_waiting_for_a_pipe(lowtide):
    os.mkfifo(lowtide.folder / "pipe")
    waiting = subprocess.Popen([BINARY, "order", str(lowtide.folder / "pipe")],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not _handles_termination(waiting.pid):
        assert waiting.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(timeout=1)
    waiting.terminate()
    _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 4 and "stopped while waiting" in err


def _handles_termination(pid):
    """Whether the process has begun to: before that, the signal ends any process at once."""
    with open(f"/proc/{pid}/status") as status:
        caught = next(line.split()[1] for line in status if line.startswith("SigCgt"))
    return int(caught, 16) >> (signal.SIGTERM - 1) & 1
