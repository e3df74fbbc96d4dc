"""The programs of examples/pytorch run, and what they print holds."""

import importlib.util
import os
import pathlib
import re
import runpy
import subprocess
import sys

import pytest
from sweep import sweep

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "pytorch"
NEEDS = {"bert_config": "transformers", "timm_model": "timm"}
BRIEFLY = ("--steps", "1", "--planning-seconds", "0.3")
PLANNED_ONLY = "larger_than_this_machine"
LEAST_MEMORY = "large_vocabulary"
REPORT = "see_a_plan"
OF_SEVERAL_PROCESSES = "pipeline"  # test_pipeline.py runs it
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py")
               if path.stem not in ("comparison", PLANNED_ONLY, LEAST_MEMORY, "gpt",
                                    OF_SEVERAL_PROCESSES, REPORT))
LONG = ("resnet50", "unet")

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@pytest.fixture
def output_of(monkeypatch, capsys):
    """What a program prints. It runs in this process, which has loaded what takes it longest."""
    def run(name, *arguments):
        program = str(EXAMPLES / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        monkeypatch.syspath_prepend(EXAMPLES)
        runpy.run_path(program, run_name="__main__")
        return capsys.readouterr().out

    return run


def output_of_process(name, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, EXAMPLES / f"{name}.py", *arguments],
                         capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", sweep(NAMES, usual=[n for n in NAMES if n not in LONG]))
def test_the_table_holds(output_of, name):
    if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    require_table(output_of(name, *BRIEFLY))


def test_the_table_holds_in_a_process_of_its_own():
    require_table(output_of_process("gpt", *BRIEFLY))


def require_table(printed):
    lines = [line for line in printed.splitlines() if line.startswith("lowtide")]
    assert len(lines) == 2
    assert all(line.endswith("bit-identical") for line in lines)
    shares = [int(word[:-1]) for line in lines for word in line.split(",")[1].split()
              if word.endswith("%")]
    assert shares[-1] < 100  # of eager's peak, within the budget


def test_a_model_without_memory_is_planned(output_of):
    pytest.importorskip("transformers")
    printed = output_of(PLANNED_ONLY, "--layers", "3", "--width", "2048", "--sequence", "4096",
                        "--time-limit", "1")
    begin, *plans = printed.splitlines()
    assert "GiB" in begin and len(plans) == 4
    costs = [float(cost) for cost in re.findall(r"\+([\d.]+)% time", printed)]
    assert costs and costs == sorted(costs)


def test_logits_need_not_exist_all_at_once(output_of):
    printed = output_of(LEAST_MEMORY, "--vocabulary", "8000", "--width", "16", "--tokens", "128",
                        "--steps", "2", "--budget", "85%")
    losses = re.findall(r"losses ([\d., ]+);", printed)
    eager, slices, updates = (float(size) for size in re.findall(r"([\d.]+) MiB", printed))
    assert len(losses) == 3 and len(set(losses)) == 1
    assert updates < slices < eager - 1.5 * 128 * 8000 * 4 / 2**20  # most of twice the logits


def test_a_plan_can_be_seen(output_of, tmp_path):
    if importlib.util.find_spec("plotly") is None:
        pytest.skip("plotly is not installed")
    page = tmp_path / "page.html"
    printed = output_of(REPORT, "--layers", "2", "--time-limit", "1",
                        "--planning-seconds", "0.3", "-o", str(page))
    assert printed.startswith(f"{page}: ") and "measured" in printed
    assert "</html>" in page.read_text()
