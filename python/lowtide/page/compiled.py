"""What a page says of a plan that another program makes code of."""

from __future__ import annotations

import dataclasses

from .. import Graph


@dataclasses.dataclass(frozen=True)
class CompiledPlan:
    """``split``: what it is, which begins a sentence. ``again``: ops of the backward pass that
    compute what the forward pass did, and ``why_again``. ``whole``: whose keep-all the plan is
    compared with, and whose plans are others, where that is not the plan's own graph.
    ``addresses``: a sentence in place of a picture of them. ``notes``: sentences behind the
    lead."""

    split: str
    addresses: str
    again: frozenset[int] = frozenset()
    why_again: str = ""
    whole: Graph | None = None
    notes: str = ""
