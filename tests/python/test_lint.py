"""The Python code is clean by the settings in pyproject.toml, where the tools are installed."""

import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKED = ["python", "tests", "bench", "examples", "scripts", "tools"]


@pytest.mark.parametrize("command", [["ruff", "check", "--no-cache", *CHECKED], ["mypy"]],
                         ids=lambda command: command[0])
def test_nothing_is_complained_of(command, tmp_path):
    if importlib.util.find_spec(command[0]) is None:
        pytest.skip(f"pip install {command[0]}")
    cache = ["--cache-dir", str(tmp_path)] if command[0] == "mypy" else []
    run = subprocess.run([sys.executable, "-m", *command, *cache], cwd=ROOT, capture_output=True,
                         text=True)
    assert run.returncode == 0, run.stdout + run.stderr
