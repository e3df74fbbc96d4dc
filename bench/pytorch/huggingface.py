"""Models of Hugging Face within the bytes of their own gradient checkpointing, beside it.

Each measurement is a process of its own; rounds take turns over eager PyTorch,
``gradient_checkpointing_enable()`` and Lowtide within the peak that checkpointing was seen to take,
through ``lowtide.wrap`` and through ``Trainer``. Writes bench/results/huggingface.csv.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from report import Table  # noqa: E402

MODELS = ("llama", "gpt2", "t5", "bert", "qwen_moe", "vit", "whisper")
COLUMNS = ("model", "door", "eager_bytes", "checkpointing_bytes", "checkpointing_time",
           "lowtide_bytes", "lowtide_first_step_bytes", "lowtide_time", "time_ratio", "exact")


def measure(arguments, model, door, tool, budget=None):
    """The figures of one process; its last line of complaint where it failed."""
    command = [sys.executable, HERE / "huggingface_measure.py", "--model", model, "--door", door,
               "--tool", tool, "--threads", str(arguments.threads)]
    command += ["--budget", str(budget)] if budget else []
    environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.returncode == 0:
        return json.loads(run.stdout.splitlines()[-1])
    print(f"{model} {door} {tool}: {run.stderr.strip().splitlines()[-1]}", flush=True)
    return None


def row(arguments, model, door):
    """Medians are for tables; here the least time of each counts, as other work only adds."""
    rounds = {"eager": [], "checkpointing": [], "lowtide": []}
    for _ in range(arguments.rounds):
        for tool, found in rounds.items():
            budget = rounds["checkpointing"][0]["peak_bytes"] if tool == "lowtide" else None
            figures = measure(arguments, model, door, tool, budget)
            if figures is None:
                return None
            found.append(figures)
    eager, peer, ours = rounds.values()
    seconds = [min(figures["step_s"] for figures in found) for found in rounds.values()]
    return (model, door, eager[0]["peak_bytes"], peer[0]["peak_bytes"], seconds[1] / seconds[0],
            max(figures["peak_bytes"] for figures in ours),
            max(figures["first_peak_bytes"] for figures in ours), seconds[2] / seconds[0],
            seconds[2] / seconds[1], all(figures["bits"] == eager[0]["bits"] for figures in ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--doors", nargs="+", choices=["wrap", "trainer"],
                        default=["wrap", "trainer"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    table = Table("huggingface", COLUMNS, key=2)
    try:
        for model in arguments.models:
            for door in arguments.doors:
                found = row(arguments, model, door)
                if found is not None:
                    table.add(*found)
    finally:
        table.close()


if __name__ == "__main__":
    main()
