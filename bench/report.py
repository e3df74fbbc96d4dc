"""Prints the rows of a benchmark as they come and keeps them in bench/results/."""

import csv
import pathlib
import platform

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


class Table:
    """A table that grows a row at a time: on the screen, and as NAME.csv when closed.

    With a `key`, rows of an older NAME.csv stay unless a new row has the same first `key` cells.
    """

    def __init__(self, name, columns, key=None):
        self.name, self.columns, self.key, self.rows = name, columns, key, []
        print(f"# {name} on {platform.processor() or platform.machine()}", flush=True)
        self._print(columns)

    def add(self, *row):
        self.rows.append(row)
        self._print(row)

    def _print(self, row):
        print("  ".join(f"{_text(cell):>{max(12, len(c))}}" for cell, c in zip(row, self.columns)),
              flush=True)

    def close(self):
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.csv"
        rows = self._older(path) + self.rows
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(rows)
        print(f"written: {path.relative_to(RESULTS.parent.parent)}", flush=True)

    def _older(self, path):
        """Rows of the file that no row of this table takes the place of."""
        if self.key is None or not path.exists():
            return []
        with open(path, newline="") as file:
            header, *rows = csv.reader(file)
        if tuple(header) != self.columns:
            return []
        new = {tuple(map(str, row[:self.key])) for row in self.rows}
        return [row for row in rows if tuple(row[:self.key]) not in new]


def _text(cell):
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
