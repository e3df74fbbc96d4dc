"""Lowtide beside what PyTorch offers, on one machine in one run: bytes, time and gradients.

Each measurement is a process of its own; rounds take turns over all tools. Lowtide is measured
without a limit and within each peak that a peer reached with gradients that hold. Writes
bench/results/pytorch.csv, where the rows of models that this run does not measure stay; Ctrl-C or
SIGTERM keeps what is measured so far. `--tools` without ours compares the peers alone. `--device`
measures larger models on an accelerator, into a file of its own.
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import devices  # noqa: E402
import summary  # noqa: E402
from summary import Row  # noqa: E402

from report import Table  # noqa: E402
from tools import OURS, TOOLS  # noqa: E402

PLANNED = ("planned_above_bytes", "floor_above_bytes", "planned_extra", "least_extra")
SAME_PEAK = 0.01  # peaks nearer than this share are one budget

# Sizes by model, for a CPU and for an accelerator with tens of GB.
ON_CPU = {name: {} for name in ("resnet50", "gpt", "unet", "densenet121", "mobilenetv2", "vit",
                                "lstm", "bert")}
ON_ACCELERATOR = {"resnet50": {"batch": 256}, "gpt2": {}, "vit_large": {},
                  "unet": {"batch": 16, "image": 512, "width": 64},
                  "lstm": {"batch": 512, "steps": 256, "width": 1024}}


@dataclasses.dataclass(frozen=True)
class Job:
    """A measurement to take, once a round."""

    model: str
    tool: str
    setting: str = ""

    def __str__(self):
        return f"{self.model} {self.tool} {self.setting}".rstrip()


@dataclasses.dataclass(frozen=True)
class Conditions:
    """Of all measurements of a run; its options have the same names. `sizes`: JSON of those that
    differ from a model's usual ones. `planning_seconds`: of each plan of ours, at most."""

    steps: int
    threads: int
    device: str
    sizes: str
    autocast: str = ""
    deterministic: bool = False
    planning_seconds: float | None = None

    @classmethod
    def of(cls, arguments):
        given = vars(arguments)
        return cls(**{field.name: given[field.name] for field in dataclasses.fields(cls)
                      if field.name in given})

    def options(self):
        """Of measure.py, but for the sizes, which differ by model."""
        planning = self.planning_seconds
        return ["--device", self.device, "--autocast", self.autocast,
                *["--deterministic"][:self.deterministic],
                *([] if planning is None else ["--planning-seconds", str(planning)]),
                "--steps", str(self.steps), "--threads", str(self.threads)]


class Bench:
    """Takes measurements and keeps them by job."""

    def __init__(self, conditions, folder):
        self.conditions, self.folder = conditions, pathlib.Path(folder)
        self.environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")}
        self.figures = {}  # lists of figures by job, a figure a round
        self.given_up = set()

    def take(self, job):
        """Measures once more; a job that fails or does not apply is given up."""
        if job in self.given_up:
            return
        figures = self._measure(job)
        if figures is None:
            self.given_up.add(job)
            return
        self.figures.setdefault(job, []).append(figures)
        seconds = figures[devices.clock_of(self.conditions.device)]
        print(f"{job}: {figures['peak_above_bytes'] / 2**20:.0f} MiB above "
              f"{figures['base_bytes'] / 2**20:.0f} MiB, {seconds:.2f} s, "
              f"gradients {figures['gradients']}, buffers {figures['buffers']}", flush=True)

    def _measure(self, job):
        command = [sys.executable, HERE / "measure.py", "--model", job.model, "--tool", job.tool,
                   "--setting", job.setting, "--sizes", json.dumps(self._sizes(job.model)),
                   *self.conditions.options(),
                   "--reference", self.folder / f"{job.model}.pt"]
        run = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if run.returncode != 0:
            reason = run.stderr.strip().splitlines()[-1:] or [f"exit code {run.returncode}"]
            print(f"{job}: failed: {reason[0]}", flush=True)
            return None
        figures = json.loads(run.stdout.splitlines()[-1])
        if "not_applicable" in figures:
            print(f"{job}: {figures['not_applicable']}", flush=True)
            return None
        return figures

    def _sizes(self, model):
        usual = ON_CPU if self.conditions.device == "cpu" else ON_ACCELERATOR
        return usual.get(model, {}) | json.loads(self.conditions.sizes)

    def rows(self):
        """The least times over the rounds, and the most of peaks and of set-up times."""
        return [self._row(job, rounds) for job, rounds in self.figures.items()]

    def _row(self, job, rounds):
        eager = self.figures[Job(job.model, "eager")]
        times = {key: round(min(f[key] for f in rounds), 4)
                 for key in ("step_cpu_s", "step_wall_s")}
        most = {key: max(f[key] for f in rounds)
                for key in ("peak_above_bytes", "peak_total_bytes", "held_bytes", "setup_s",
                            "gradient_error")}
        clock = devices.clock_of(self.conditions.device)
        ratio = times[clock] / min(f[clock] for f in eager)
        return Row(model=job.model, tool=job.tool, setting=job.setting,
                   time_x_eager=round(ratio, 4), threads=self.conditions.threads,
                   rounds=len(rounds), date=datetime.date.today().isoformat(), **times, **most,
                   **{key: rounds[0][key] for key in ("batch", "base_bytes", "rounding", "device")},
                   **{key: rounds[0][key] for key in PLANNED if rounds[0].get(key) is not None},
                   **{key: worst([f[key] for f in rounds]) for key in ("gradients", "buffers")})


def worst(verdicts):
    return max(verdicts, key=("exact", "close", "own draws", "WRONG").index)


def chosen_tools(text):
    """Settings by tool of "checkpoint,aot_eager=1/0.4": all that it has where none are given."""
    chosen = {"eager": TOOLS["eager"]}
    for word in text.split(","):
        name, _, settings = word.partition("=")
        if name not in TOOLS:
            sys.exit(f"no tool {name!r}: choose from {', '.join(TOOLS)}")
        chosen[name] = tuple(settings.split("/")) if settings else TOOLS[name]
    return chosen


def our_jobs(model, figures, tool):
    """A tool of ours within each peak in all that a peer of it reached below eager's."""
    def total(job):
        return max(f["peak_total_bytes"] for f in figures[job])

    eager = total(Job(model, "eager"))
    peaks = sorted({total(job) for job, rounds in figures.items()
                    if job.model == model and job.tool in OURS[tool]
                    and rounds[0]["gradients"] != "WRONG"})
    last = 0
    for peak in peaks:
        if peak > last * (1 + SAME_PEAK) and peak < eager:
            yield Job(model, tool, str(peak))
            last = peak


def run(bench, arguments):
    """Model by model, so that what Ctrl-C leaves is complete for those before."""
    chosen = chosen_tools(arguments.tools)
    for model in arguments.models:
        jobs = [Job(model, tool, setting) for tool, settings in chosen.items()
                for setting in settings]
        for round_number in range(arguments.rounds):
            print(f"{model}, round {round_number + 1} of {arguments.rounds}", flush=True)
            for job in jobs:
                bench.take(job)
            if round_number == 0:
                ours = [job for tool in OURS if tool in chosen
                        for job in our_jobs(model, bench.figures, tool)]
                jobs += ours
                for job in ours:
                    bench.take(job)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu", help="cpu, cuda, simulated")
    parser.add_argument("--models", help="separated by commas; all of the device's by default")
    parser.add_argument("--autocast", default="", help="a dtype, such as bfloat16")
    parser.add_argument("--deterministic", action="store_true",
                        help="asks PyTorch for deterministic algorithms: on a GPU, eager itself is "
                             "not exact without")
    parser.add_argument("--tools", default="checkpoint,selective,sequential,aot_eager,inductor,"
                        "lowtide,lowtide_inductor",
                        help="beside eager, which is always measured; settings as in "
                        "inductor=1/0.4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="per process, after one that warms up")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--planning-seconds", type=float, help="of each plan of ours, at most")
    parser.add_argument("--sizes", default="{}",
                        help='other sizes for all models, such as {"batch": 2}')
    parser.add_argument("--name", help="of the CSV in bench/results")
    arguments = parser.parse_args()
    usual = ON_CPU if arguments.device == "cpu" else ON_ACCELERATOR
    arguments.models = arguments.models.split(",") if arguments.models else list(usual)
    if arguments.name is None:
        arguments.name = "pytorch" if arguments.device == "cpu" else f"pytorch-{arguments.device}"
    return arguments


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # for runs in the background
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Conditions.of(arguments), folder)
        try:
            run(bench, arguments)
        except KeyboardInterrupt:
            print("stopped", flush=True)
    rows = bench.rows()
    table = Table(arguments.name, summary.COLUMNS, key=1)
    for row in rows:
        table.add(*dataclasses.astuple(row))
    table.close()
    print(summary.against_peers(rows))


if __name__ == "__main__":
    main()
