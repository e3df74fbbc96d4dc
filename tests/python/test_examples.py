"""The programs of examples/pytorch run, and what they print holds."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "pytorch"
NEEDS = {"bert_config": "transformers", "timm_model": "timm"}
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "comparison")


@pytest.mark.parametrize("name", NAMES)
def test_the_table_holds(name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", "--steps", "1"],
                         capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stdout.splitlines() if line.startswith("lowtide")]
    assert len(lines) == 2
    assert all(line.endswith("bit-identical") for line in lines)
    shares = [int(word[:-1]) for line in lines for word in line.split(",")[1].split()
              if word.endswith("%")]
    assert shares[-1] < 100  # of eager's peak, within the budget
