"""What got better or worse between two files of results, beyond their own noise."""

from __future__ import annotations

import dataclasses
import statistics

from .results import SECONDS, Figure, Results

#: Of fewer rounds nobody can tell how noisy they are.
LEAST_ROUNDS = 3
WORSE, BETTER, SAME, UNKNOWN = "worse", "better", "same", "not compared"


@dataclasses.dataclass
class Verdict:
    figure: str
    verdict: str
    text: str


def compare(old: Results, new: Results) -> list[Verdict]:
    """One for each figure of either, in the order of `old`.

    A figure got worse where every round of `new` is above every round of `old`: the noise is what
    rounds of one file differ by. Times of different machines, or of too few rounds, are not
    compared. A figure that `new` lacks counts as worse, as nobody can see that it did not get so.
    """
    verdicts = []
    for name, before in old.figures.items():
        after = new.figures.get(name)
        if after is None:
            verdicts.append(Verdict(name, WORSE, "it is no longer measured"))
        else:
            verdicts.append(_verdict(name, before, after, old.machine == new.machine))
    return verdicts + [Verdict(name, UNKNOWN, "it is new") for name in new.figures
                       if name not in old.figures]


def _verdict(name: str, before: Figure, after: Figure, same_machine: bool) -> Verdict:
    why_not = _why_not(before, after, same_machine)
    if why_not:
        return Verdict(name, UNKNOWN, why_not)
    verdict = SAME
    if min(after.values) > max(before.values):
        verdict = WORSE
    elif max(after.values) < min(before.values):
        verdict = BETTER
    return Verdict(name, verdict, _text(before, after))


def _why_not(before: Figure, after: Figure, same_machine: bool) -> str:
    if before.unit != after.unit:
        return f"it was in {before.unit} and is in {after.unit}"
    if before.unit != SECONDS:
        return ""
    if not same_machine:
        return "times of different machines say nothing about each other"
    if min(len(before.values), len(after.values)) < LEAST_ROUNDS:
        return f"fewer than {LEAST_ROUNDS} rounds say nothing about noise"
    return ""


def _text(before: Figure, after: Figure) -> str:
    old, new = statistics.median(before.values), statistics.median(after.values)
    share = f" ({100 * (new / old - 1):+.1f}%)" if old > 0 else ""
    return f"{_range(before)} -> {_range(after)} {before.unit}{share}"


def _range(figure: Figure) -> str:
    """The median, with the least and the most where they differ."""
    least, most = min(figure.values), max(figure.values)
    middle = f"{statistics.median(figure.values):.6g}"
    return middle if least == most else f"{middle} [{least:.6g}, {most:.6g}]"
