"""The stashes of a planned graph, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ... import format_bytes
from .stash import Stash


def describe(stashes: Sequence[Stash], overhead: float) -> str:
    """A line for each form; "" where nothing is stashed. ``overhead``: of the plan, over a step
    that keeps all values as they are, as a share of its time; less than 0 where measured times of
    ops say so."""
    by_form: dict[str, list[Stash]] = {}
    for stash in stashes:
        by_form.setdefault(stash.form_name, []).append(stash)
    lines = [f"  {len(some)} as {form}: {format_bytes(sum(stash.held_bytes for stash in some))} "
             f"instead of {format_bytes(sum(stash.whole_bytes for stash in some))}"
             for form, some in sorted(by_form.items())]
    difference = f"{abs(overhead):.2%} {'less' if overhead < 0 else 'more'}"
    return "\n".join([
        f"A step costs {difference} than one that keeps all values as they are.",
        "values held in fewer bits between the passes:", *lines]) if lines else ""
