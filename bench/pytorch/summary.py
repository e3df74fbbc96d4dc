"""Rows of the comparison, and what they say: Lowtide's extra time at a peer's peak beside the
peer's own."""

import csv
import dataclasses

from tools import OURS

SLACK = 0.001  # of a peak: scalars that a step takes beside what is planned


@dataclasses.dataclass(frozen=True)
class Row:
    """A tool at a setting on a model. Bytes; seconds of a step; peaks above `base_bytes`, which
    lived before the tool was set up, and in all; `held_bytes` of `peak_above_bytes` stay between
    steps. `gradient_error`: from eager's gradients; `rounding`: of eager's own, from those in
    double precision. Of a plan: the bytes above `base_bytes` that it promises, those that an op
    needs at least with the gradients that exist by then, its extra time by its costs, and the
    certified least of any plan within the budget; shares of a step without a limit."""

    model: str
    tool: str
    setting: str
    batch: int
    threads: int
    base_bytes: int
    held_bytes: int
    peak_above_bytes: int
    peak_total_bytes: int
    step_cpu_s: float
    step_wall_s: float
    time_x_eager: float
    setup_s: float
    gradients: str
    gradient_error: float
    rounding: float
    buffers: str
    rounds: int
    planned_above_bytes: int | str = ""
    floor_above_bytes: int | str = ""
    planned_extra: float | str = ""
    least_extra: float | str = ""
    device: str = ""
    date: str = ""


TEXTS = ("model", "tool", "setting", "gradients", "buffers", "device", "date")
COLUMNS = tuple(field.name for field in dataclasses.fields(Row))


def read_rows(path):
    """The rows of a CSV that the comparison wrote."""
    with open(path, newline="") as file:
        return [Row(**{name: _value(name, cell) for name, cell in row.items()})
                for row in csv.DictReader(file)]


def _value(name, cell):
    if name in TEXTS or not cell:
        return cell
    number = float(cell)
    return int(number) if number.is_integer() and "." not in cell else number


def against_peers(rows):
    """A Markdown table: a line for each peer below eager's peak that a tool of ours was measured
    beside."""
    lines = ["| model | peer | peer's peak | ours | | peer's time | ours | extra time, ours of "
             "theirs | planned | certified least |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for peer in rows:
        for ours in _within(rows, peer):
            lines.append(f"| {peer.model} | {peer.tool} {peer.setting} | {_mebibytes(peer)} | "
                         f"{ours.tool} | {_mebibytes(ours)} | {_time(peer)} | {_time(ours)} | "
                         f"{_share(ours.time_x_eager - 1, peer.time_x_eager - 1)} | "
                         f"{_percent(ours.planned_extra)} | {_percent(ours.least_extra)} |")
    return "\n".join(lines)


def _within(rows, peer):
    """Of each tool of ours that the peer is one of, the row at its peak, or the next below."""
    for tool, peers in OURS.items():
        fitting = [row for row in rows if row.tool == tool and row.model == peer.model
                   and row.peak_total_bytes <= peer.peak_total_bytes * (1 + SLACK)]
        if peer.tool in peers and fitting:
            yield max(fitting, key=lambda row: row.peak_total_bytes)


def _mebibytes(row):
    return f"{row.peak_total_bytes / 2**20:.1f} MiB"


def _time(row):
    return f"{row.time_x_eager:.2f}x" + ("" if row.gradients == "exact" else f" ({row.gradients})")


def _percent(share):
    return f"{share:+.1%}" if isinstance(share, float) else ""


def _share(ours, theirs):
    if theirs <= 0:
        return "both save time" if ours <= 0 else "the peer saves time"
    return "saves time" if ours <= 0 else f"{ours / theirs:.2f}"
