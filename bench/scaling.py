"""How the default strategy scales from 1,000 to a million ops: time, memory and gap, from file to file.

Every plan is made in a process of its own, by build/bench/scaling. Writes bench/results/scaling.csv
and the picture docs/pictures/scaling.svg.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

from report import Table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bench" / "scaling"
GRAPHS = "step,torch-gpt,torch-resnet50,checkmate-resnet50"
SIZES = "1000,3000,10000,30000,100000,300000,1000000"
OPS_PER_SECOND = 5000
FIGURES = ("ops", "budget_percent", "limit_seconds", "seconds", "load_seconds", "stages_seconds", "bound_seconds",
           "start_seconds", "plan_seconds", "layout_seconds", "save_seconds", "peak_bytes", "overhead_percent",
           "bound_percent", "gap_percent", "outcome")


def figures(graph, ops, budget, folder):
    """What the program prints about a plan of `graph`, made or repeated to about so many ops."""
    path = pathlib.Path(folder) / "graph.json"
    seconds = max(2, ops / OPS_PER_SECOND)
    subprocess.run([PROGRAM, "make", graph, str(ops), path], check=True)
    command = [PROGRAM, "plan", path, "--budget", str(budget), "--seconds", str(seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class LogPlot:
    """One logarithmic plot of the picture: powers of ten as a grid, a line a graph."""

    HEIGHT, TOP = 300, 70

    def __init__(self, left, title, xs, ys):
        self.left, self.title, self.width = left, title, 330
        self.x_range = self._decades(xs)
        self.y_range = self._decades(ys)

    @staticmethod
    def _decades(values):
        return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def place(self, x, y):
        def share(value, ends):
            return (math.log10(value) - ends[0]) / max(1, ends[1] - ends[0])
        return (self.left + self.width * share(x, self.x_range),
                self.TOP + self.HEIGHT * (1 - share(y, self.y_range)))

    def frame(self):
        yield f'<text class="strong" x="{self.left}" y="{self.TOP - 16}">{self.title}</text>'
        for power in range(self.x_range[0], self.x_range[1] + 1):
            x, bottom = self.place(10**power, 10**self.y_range[0])
            yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.TOP}" y2="{bottom:.1f}"/>'
            yield f'<text class="muted" x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{10**power:,}</text>'
        for power in range(self.y_range[0], self.y_range[1] + 1):
            left, y = self.place(10**self.x_range[0], 10**power)
            yield f'<line x1="{left:.1f}" x2="{left + self.width:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            yield f'<text class="muted" x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>'

    def curve(self, points, color):
        places = [self.place(*point) for point in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>'


STYLE = """<style>text { font-family: Inter, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; font-size: 12px;
fill: #1b2733; } .strong { font-weight: 600; font-size: 14px; } .muted { fill: #5f6f7f; }
line { stroke: #e6ebf0; } .card { fill: #ffffff; stroke: #d9dfe6; }</style>"""
COLORS = ("#7b8a99", "#0b7a75", "#d1661c", "#5b4bb7", "#b3214f")


def picture(rows):
    """Seconds and memory over ops as an SVG document; `rows` are (graph, figures)."""
    ops = [row["ops"] for _, row in rows]
    plots = {"seconds": LogPlot(70, "seconds from file to file, over ops", ops, [_seconds(r) for _, r in rows]),
             "memory": LogPlot(500, "peak memory in MiB, over ops", ops, [_mebibytes(r) for _, r in rows])}
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 440" role="img">',
             "<title>Time and memory of planning over the size of the graph</title>", STYLE,
             '<rect class="card" x="0.5" y="0.5" width="859" height="439" rx="10"/>']
    for plot in plots.values():
        lines += plot.frame()
    for i, graph in enumerate(dict.fromkeys(graph for graph, _ in rows)):
        color = COLORS[i % len(COLORS)]
        mine = [row for name, row in rows if name == graph]
        lines += plots["seconds"].curve([(row["ops"], _seconds(row)) for row in mine], color)
        lines += plots["memory"].curve([(row["ops"], _mebibytes(row)) for row in mine], color)
        lines.append(f'<circle cx="{76 + 180 * i}" cy="417" r="4" fill="{color}"/>')
        lines.append(f'<text x="{86 + 180 * i}" y="421">{graph}</text>')
    return "\n".join(lines + ["</svg>", ""])


def _seconds(row):
    return row["load_seconds"] + row["seconds"] + row["save_seconds"]


def _mebibytes(row):
    return row["peak_bytes"] / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--graphs", default=GRAPHS, help="step (synthetic), and graphs of data/graphs to repeat")
    parser.add_argument("--sizes", default=SIZES, help="ops")
    parser.add_argument("--budgets", default="0.6,0.4", help="shares of the keep-all peak; the picture shows the first")
    arguments = parser.parse_args()

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
    (ROOT / "docs" / "pictures" / "scaling.svg").write_text(picture(shown))


if __name__ == "__main__":
    main()
