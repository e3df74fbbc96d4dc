"""Measurements as files: a CSV with date and machine, a row for each round of each figure."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import os
import pathlib
import platform
import re

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "results" / "over_time"
COLUMNS = ("date", "machine", "figure", "unit", "value")
#: A figure in this unit depends on the machine; all others do not.
SECONDS = "seconds"


class BadFile(Exception):
    """A file that holds no results; the text says which, and why."""


@dataclasses.dataclass
class Figure:
    """What was measured, a value for each round. Less is better."""

    unit: str
    values: list[float]


@dataclasses.dataclass
class Results:
    date: str
    machine: str
    figures: dict[str, Figure] = dataclasses.field(default_factory=dict)

    def add(self, name: str, unit: str, value: float) -> None:
        self.figures.setdefault(name, Figure(unit, [])).values.append(value)

    def write(self, folder: pathlib.Path = FOLDER) -> pathlib.Path:
        """The new file, named by date and machine."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = re.sub(r"[^a-z0-9]+", "-", self.machine.lower()).strip("-")
        path = folder / f"{self.date.replace(':', '')}-{machine}.csv"
        with open(path, "x", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows((self.date, self.machine, name, figure.unit, value)
                             for name, figure in self.figures.items() for value in figure.values)
        return path

    @staticmethod
    def read(path: str | os.PathLike) -> Results:
        """Raises BadFile."""
        try:
            with open(path, newline="") as file:
                header, *rows = csv.reader(file)
        except (OSError, UnicodeDecodeError) as error:
            raise BadFile(f"{path} cannot be read: {error}") from None
        except ValueError:
            raise BadFile(f"{path} is empty: `python bench/over_time measure` writes such files") \
                from None
        if tuple(header) != COLUMNS or not rows:
            raise BadFile(f"{path} has not the columns {', '.join(COLUMNS)} and a row: `python "
                          f"bench/over_time measure` writes such files")
        found = Results(*rows[0][:2])
        for number, row in enumerate(rows, 2):
            try:
                date, machine, name, unit, value = row
                found.add(name, unit, float(value))
            except ValueError:
                raise BadFile(f"{path}, line {number}: {','.join(row)!r} has not a cell for each "
                              f"column, with a number in the last") from None
            if (date, machine) != (found.date, found.machine):
                raise BadFile(f"{path}, line {number}: it is of another date or machine than the "
                              f"rows above it: a file holds one measurement")
        return found


def empty() -> Results:
    """Of now and here."""
    now = datetime.datetime.now(datetime.UTC)
    return Results(now.strftime("%Y-%m-%dT%H:%M:%SZ"), f"{_processor()}, {os.cpu_count()} cores")


def _processor() -> str:
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named[1].strip() if named else platform.machine()
