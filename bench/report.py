"""Prints the rows of a benchmark as they come and keeps them in bench/results/."""

import csv
import pathlib
import platform

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


class Table:
    """A table that grows a row at a time: on the screen, and as NAME.csv when closed."""

    def __init__(self, name, columns):
        self.name, self.columns, self.rows = name, columns, []
        print(f"# {name} on {platform.processor() or platform.machine()}", flush=True)
        self._print(columns)

    def add(self, *row):
        self.rows.append(row)
        self._print(row)

    def _print(self, row):
        print("  ".join(f"{_text(cell):>{max(12, len(c))}}" for cell, c in zip(row, self.columns)), flush=True)

    def close(self):
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.csv"
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(self.rows)
        print(f"written: {path.relative_to(RESULTS.parent.parent)}", flush=True)


def _text(cell):
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
