"""The main job: ResNet-50 and a GPT, trained within 60% and 40% of what an unlimited step needs.

For each budget, `lowtide train --check` plans, runs keep-all and the plan from the same start, and
compares every loss, gradient, parameter, buffer and the random generator bit for bit.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import lowtide

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "demo"
CASES = {
    "resnet50": ["--model", "resnet50", "--batch", "16", "--lr", "0.01"],
    "gpt": ["--model", "gpt", "--layers", "12", "--width", "512", "--sequence", "512",
            "--batch", "4", "--optimizer", "adamw", "--text", str(OUT / "text.txt")],
}
HEADER = ("model", "budget", "bytes", "planned", "measured", "s/step", "x keep-all", "predicted",
          "loss and gradients", "cost at least", "gap")


def gather_text():
    """A text file to train on: this project's own documentation."""
    pages = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    (OUT / "text.txt").write_text("\n".join(page.read_text() for page in pages))


def train(name, budget, steps):
    """One run of the command; its progress goes to the screen as it comes."""
    stem = OUT / f"{name}-{budget.rstrip('%')}"
    command = [ROOT / "build" / "lowtide", "train", *CASES[name], "--steps", str(steps),
               "--budget", budget, "--time-limit", "20", "--check", "--json",
               "--trace", f"{stem}.trace.json", "--plan-out", f"{stem}.plan.json",
               "--graph-out", OUT / f"{name}.graph.json"]
    print(f"\n== {name} within {budget} of its keep-all peak", file=sys.stderr, flush=True)
    run = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.returncode)
    return json.loads(run.stdout)


def draw(name, budgets):
    """Bytes in use over a step: without a limit, and within each budget."""
    graph = lowtide.Graph.load(OUT / f"{name}.graph.json")
    plans = [(budget, lowtide.Plan.load(OUT / f"{name}-{budget.rstrip('%')}.plan.json"))
             for budget in budgets]
    picture = lowtide.memory_plot(graph, [("keep-all", lowtide.keep_all(graph)), *plans],
                                  f"Bytes in use over one training step of {name}")
    (OUT / f"{name}.svg").write_text(picture)


def mebibytes(count):
    return f"{count / 2**20:.1f} MiB"


def keep_all_row(name, result):
    return (name, "none", "", mebibytes(result["keep_all_peak_bytes"]),
            mebibytes(result["keep_all_measured_peak_bytes"]),
            f"{result['keep_all_step_seconds']:.2f}", "1.00", "1.00", "reference", "", "")


def budget_row(name, budget, result):
    gap, bound = result.get("gap"), result.get("lower_bound_seconds")
    keep_all = result["predicted_step_seconds"] / (1 + result["overhead"])
    return (name, budget, mebibytes(result["budget_bytes"]), mebibytes(result["arena_bytes"]),
            mebibytes(result["measured_peak_bytes"]), f"{result['step_seconds']:.2f}",
            f"{result['step_seconds'] / result['keep_all_step_seconds']:.2f}",
            f"{1 + result['overhead']:.2f}",
            "bit-identical" if result["bit_identical"] else f"DIFFER: {result['first_difference']}",
            "" if bound is None else f"{bound / keep_all:.3f}x",
            "" if gap is None else f"{gap:.1%}")


def print_table(rows):
    widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER))]
    for row in [HEADER, tuple("-" * width for width in widths), *rows]:
        print("  ".join(cell.rjust(width) if 0 < i else cell.ljust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budgets", default="60%,40%")
    parser.add_argument("--steps", type=int, default=3)
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    gather_text()

    rows, kept, budgets = [], True, arguments.budgets.split(",")
    for name in CASES:
        for number, budget in enumerate(budgets):
            result = train(name, budget, arguments.steps)
            if number == 0:
                rows.append(keep_all_row(name, result))
            rows.append(budget_row(name, budget, result))
            within = result["measured_peak_bytes"] <= result["budget_bytes"]
            kept = kept and result["bit_identical"] and within
        draw(name, budgets)
    print()
    print_table(rows)
    print(f"\nGraphs, plans, traces and pictures are in {OUT.relative_to(ROOT)}/ ; open a trace at "
          f"https://ui.perfetto.dev")
    if not kept:
        sys.exit("a budget was exceeded, or a run differs from keep-all: see the table")


if __name__ == "__main__":
    main()
