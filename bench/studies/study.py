"""A study: how its rows are computed, drawn, written and read again."""

import csv
import dataclasses
from collections.abc import Callable, Iterable

from lowtide_command import ROOT

from report import RESULTS, Table


@dataclasses.dataclass(frozen=True)
class Study:
    """`rows(case)` gives the rows of one of `cases`, each with a cell for each of `columns`; the
    first `key` cells tell cases apart. `picture(rows)` draws rows, as `recorded` gives them, as an
    SVG document. `smallest` is a case that takes seconds, for tests."""

    name: str
    columns: tuple[str, ...]
    key: int
    cases: tuple
    smallest: tuple
    rows: Callable[[tuple], Iterable[tuple]]
    picture: Callable[[list[dict]], str]

    def recorded(self):
        """The rows of the file, as dictionaries; what looks like a number is one."""
        with open(RESULTS / f"{self._stem}.csv", newline="") as file:
            return [{name: _number(cell) for name, cell in row.items()}
                    for row in csv.DictReader(file)]

    def run(self, cases):
        """Computes the rows of `cases` and writes them; rows of other cases stay."""
        table = Table(self._stem, self.columns, key=self.key)
        for case in cases:
            for row in self.rows(case):
                table.add(*row)
        table.close()

    def draw(self):
        path = ROOT / "docs" / "pictures" / f"{self._stem.replace('_', '-')}.svg"
        path.write_text(self.picture(self.recorded()))
        print(f"written: {path.relative_to(ROOT)}", flush=True)

    @property
    def _stem(self):
        return f"study_{self.name}"


def _number(cell):
    try:
        return float(cell)
    except ValueError:
        return cell
