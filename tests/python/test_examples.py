"""The programs of examples/pytorch run, and what they print holds."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "pytorch"
NEEDS = {"bert_config": "transformers", "timm_model": "timm"}
PLANNED_ONLY = "larger_than_this_machine"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py")
               if path.stem not in ("comparison", PLANNED_ONLY))


def output_of(name, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", *arguments],
                         capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_table_holds(name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    printed = output_of(name, "--steps", "1")
    lines = [line for line in printed.splitlines() if line.startswith("lowtide")]
    assert len(lines) == 2
    assert all(line.endswith("bit-identical") for line in lines)
    shares = [int(word[:-1]) for line in lines for word in line.split(",")[1].split()
              if word.endswith("%")]
    assert shares[-1] < 100  # of eager's peak, within the budget


def test_a_model_without_memory_is_planned():
    pytest.importorskip("transformers")
    printed = output_of(PLANNED_ONLY, "--layers", "3", "--width", "2048", "--sequence", "4096",
                        "--time-limit", "4")
    begin, *plans = printed.splitlines()
    assert "GiB" in begin and len(plans) == 4
    costs = [float(cost) for cost in re.findall(r"\+([\d.]+)% time", printed)]
    assert costs and costs == sorted(costs)
