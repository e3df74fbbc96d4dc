"""The training of examples/ranks goes on after a rank has failed, under torchrun as well."""

import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from rank_processes import RankProcesses, values_of_ranks

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "ranks" / "train.py")

pytestmark = pytest.mark.cpu_only("the ranks of these tests are on the CPU")


def example(*arguments):
    sys.argv = [EXAMPLE, *arguments]
    runpy.run_path(EXAMPLE, run_name="__main__")


def losses_in(text):
    """By step, as text: repr() has all bits."""
    return {int(step): loss for step, loss in re.findall(r"step (\d+): loss (\S+)", text)}


def arguments_for(folder, *others):
    return "--folder", str(folder), "--steps", "15", *others


def test_the_training_goes_on_after_a_failure(tmp_path):
    with RankProcesses(tmp_path, example, 2, *arguments_for(tmp_path / "a", "--fail-at",
                                                            "12")) as ranks:
        first, second = ranks.outcomes()
    message = "rank 1 of 2 failed: RuntimeError: this rank was asked to fail"
    assert first.error == ("RankError", message)
    assert message in second.printed
    before = losses_in(first.printed)
    values_of_ranks(tmp_path, example, 2, *arguments_for(tmp_path / "a"))
    after = losses_in((tmp_path / "stderr-0").read_text())
    assert min(after) in (5, 10) and max(after) == 14
    assert all(after[step] == loss for step, loss in before.items() if step in after)


KILLED = """
import os, signal, lowtide, torch
with lowtide.Communicator.create() as comm, lowtide.Watchdog(comm):
    for step in range(10**9):
        if step == 5 and comm.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.allreduce(torch.ones(5))
"""


def torchrun(*arguments, ranks=2):
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
         str(ranks), *arguments], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "GLOO_SOCKET_IFNAME": "lo"})


@pytest.mark.sweep
def test_torchrun_starts_it_again_and_nothing_is_different(tmp_path):
    plain = torchrun(EXAMPLE, *arguments_for(tmp_path / "plain"))
    assert plain.returncode == 0, plain.stderr
    again = torchrun("--max-restarts", "1", EXAMPLE,
                     *arguments_for(tmp_path / "again", "--fail-at", "12"))
    assert again.returncode == 0, again.stderr
    assert losses_in(again.stdout) == losses_in(plain.stdout)
    assert again.stdout.count("step 12:") == 1
    assert again.stderr.count("rank 1 of 2 failed: RuntimeError: this rank was asked to fail") == 2


@pytest.mark.sweep
def test_ranks_that_torchrun_ends_say_why(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    run = torchrun(str(tmp_path / "killed.py"), ranks=3)
    assert run.returncode != 0
    told = [line for line in run.stderr.splitlines() if "rank 2 of 3 failed: its process" in line]
    assert len(told) == 2, run.stderr
