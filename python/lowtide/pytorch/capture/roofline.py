"""Estimated costs for a captured graph."""

from __future__ import annotations

from ... import Graph, _core
from .arithmetic import flops
from .captured import Captured


def priced(captured: Captured, like: str | None = None) -> Graph:
    """The graph with an estimate, marked as such, as the cost of each op, in microseconds.

    Of a roofline model (src/cost/roofline.h) with the rates of the device that ``like`` names, or
    those of a few cores of a server. Arithmetic is counted as ``torch.utils.flop_counter`` does,
    and by Lowtide elsewhere. Raises InputError, with the known names, for one that is not known.
    """
    counts = [None if node is None else flops(node) for node in captured.nodes]
    return _core.estimated(captured.graph, counts, like)
