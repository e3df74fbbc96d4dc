"""Measures what must not get worse: planning, and training within a budget, each in rounds."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from lowtide_command import lowtide

from .results import SECONDS, Results, empty

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: By counted work, so that a plan is the same in every round: there is no limit of time.
_GRAPHS = ("torch-unet", "torch-gpt", "torch-resnet50")
_SEARCH = ("--budget", "60%", "--time-limit", 0, "-O", "moves=100", "-O", "restarts=off")
_MODELS = {
    "mlp": ("--batch", 2048),
    "resnet18": ("--batch", 16, "--image", 64),
    "gpt": ("--batch", 2, "--layers", 2, "--width", 128, "--sequence", 64, "--vocabulary", 512),
}
_TRAIN = ("--budget", "80%", "--steps", 5, "--threads", 1, "--time-limit", 5)


def measured(rounds: int) -> Results:
    """Rounds go over all cases in turn, so that a busy while disturbs all of them alike."""
    found = empty()
    for number in range(1, rounds + 1):
        print(f"round {number} of {rounds}", flush=True)
        for name, unit, value in _round():
            found.add(name, unit, value)
    return found


def _round() -> Iterator[tuple[str, str, float]]:
    for graph in _GRAPHS:
        plan = lowtide("plan", ROOT / "data" / "graphs" / f"{graph}.json", *_SEARCH)
        yield f"plan {graph}: time of planning", SECONDS, plan["seconds"]
        yield f"plan {graph}: overhead", "of keep-all", plan["overhead"]
        yield f"plan {graph}: arena", "bytes", plan["arena_bytes"]
    for model, sizes in _MODELS.items():
        run = lowtide("train", "--model", model, *sizes, *_TRAIN)
        yield f"train {model}: step", SECONDS, run["step_seconds"]
        yield f"train {model}: keep-all peak", "bytes", run["keep_all_peak_bytes"]
        yield (f"train {model}: peak over the budget", "bytes",
               max(0, run["measured_peak_bytes"] - run["budget_bytes"]))
