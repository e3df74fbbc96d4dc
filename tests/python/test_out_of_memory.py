"""The system refuses memory at some request of a step: an error, and the training goes on."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("out_of_memory_program.py")

pytestmark = [pytest.mark.usefixtures("own_cache"),
              pytest.mark.cpu_only("it is the host's memory that is short")]


@pytest.mark.parametrize("moves", [True, pytest.param(False, marks=pytest.mark.sweep)])
def test_a_step_that_gets_no_memory_changes_nothing_and_can_be_tried_again(moves, tmp_path):
    folder = [str(tmp_path)] if moves else []
    # Freed memory goes back to the system, so that it can be refused.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run([sys.executable, PROGRAM, "70%", *folder], env=environment,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
