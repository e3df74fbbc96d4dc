"""How the default strategy scales from 1,000 to a million ops: time, memory and gap of plans.

Every plan is made from file to file in a process of its own, by build/bench/scaling. Writes
bench/results/scaling.csv and the picture docs/pictures/scaling.svg.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import tempfile

from plot import COLORS, LogAxis, Panel, document, legend

from report import Table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "pictures" / "scaling.svg"
PROGRAM = ROOT / "build" / "bench" / "scaling"
GRAPHS = "step,torch-gpt,torch-resnet50,checkmate-resnet50"
NAMES = {"step": "synthetic step"}
SIZES = "1000,3000,10000,30000,100000,300000,1000000"
OPS_PER_SECOND = 5000
FIGURES = ("ops", "budget_percent", "limit_seconds", "seconds", "load_seconds", "stages_seconds",
           "bound_seconds", "start_seconds", "plan_seconds", "layout_seconds", "save_seconds",
           "peak_bytes", "overhead_percent", "bound_percent", "gap_percent", "outcome")


def figures(graph, ops, budget, folder):
    """What the program prints about a plan of `graph`, made or repeated to about so many ops."""
    path = pathlib.Path(folder) / "graph.json"
    seconds = max(2, ops / OPS_PER_SECOND)
    subprocess.run([PROGRAM, "make", graph, str(ops), path], check=True)
    command = [PROGRAM, "plan", path, "--budget", str(budget), "--seconds", str(seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def recorded():
    """The rows of the first budget of bench/results/scaling.csv, for picture()."""
    with (ROOT / "bench" / "results" / "scaling.csv").open() as file:
        rows = list(csv.DictReader(file))
    first = rows[0]["budget_percent"]
    return [(row["graph"], {name: float(row[name]) for name in FIGURES if name != "outcome"})
            for row in rows if row["budget_percent"] == first]


def picture(rows):
    """Seconds and memory over ops as an SVG document; `rows` are (graph, figures)."""
    ops = LogAxis([row["ops"] for _, row in rows])
    seconds = Panel(70, 70, 330, 300, "seconds from file to file, over ops", ops,
                    LogAxis([_seconds(row) for _, row in rows]))
    memory = Panel(500, 70, 330, 300, "peak memory in MiB, over ops", ops,
                   LogAxis([_mebibytes(row) for _, row in rows]))
    lines = [*seconds.frame(), *memory.frame()]
    colors = dict(zip(dict.fromkeys(graph for graph, _ in rows), COLORS))
    for graph, color in colors.items():
        mine = sorted((row for name, row in rows if name == graph), key=lambda row: row["ops"])
        for panel, figure in ((seconds, _seconds), (memory, _mebibytes)):
            points = [(row["ops"], figure(row)) for row in mine]
            lines += [*panel.curve(points, color), *panel.marks(points, color)]
    lines += legend((76, 417), 180, [(NAMES.get(graph, graph), color, "circle")
                                     for graph, color in colors.items()])
    return document(880, 440, "Time and memory of planning over the size of the graph", lines)


def _seconds(row):
    return row["load_seconds"] + row["seconds"] + row["save_seconds"]


def _mebibytes(row):
    return row["peak_bytes"] / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", default=GRAPHS,
                        help="step (synthetic), and graphs of data/graphs to repeat")
    parser.add_argument("--sizes", default=SIZES, help="ops")
    parser.add_argument("--budgets", default="0.6,0.4",
                        help="shares of the keep-all peak; the picture shows the first")
    parser.add_argument("--draw", action="store_true",
                        help="only draw the picture again, from bench/results/scaling.csv")
    arguments = parser.parse_args()
    if arguments.draw:
        PICTURE.write_text(picture(recorded()))
        return

    table, shown = Table("scaling", ("graph", *FIGURES)), []
    budgets = [float(budget) for budget in arguments.budgets.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        for graph in arguments.graphs.split(","):
            for ops in map(int, arguments.sizes.split(",")):
                for budget in budgets:
                    row = figures(graph, ops, budget, folder)
                    table.add(graph, *(row[figure] for figure in FIGURES))
                    shown += [(graph, row)] if budget == budgets[0] else []
    table.close()
    PICTURE.write_text(picture(shown))


if __name__ == "__main__":
    main()
