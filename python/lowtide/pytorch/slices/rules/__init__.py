"""By op: which rows a slice of it reads and makes. A rule answers None for what it cannot cut."""

from __future__ import annotations

from torch import fx

from . import (
    along,
    attention,
    elementwise,
    embeddings,
    images,
    losses,
    norms,
    products,
    reductions,
    totals,
    views,
)
from .cut import Cut, KnownRows, Whole
from .totals import is_of_no_use_alone

_MODULES = (views, products, reductions, along, norms, images, losses, embeddings, attention)
_RULES = {target: rule for module in _MODULES for target, rule in module.RULES.items()}


__all__ = ["TARGETS", "cut_of", "is_of_no_use_alone"]

#: The ops with a rule of their own; those that are elementwise have one together.
TARGETS = frozenset(_RULES)


def cut_of(node: fx.Node, known: KnownRows) -> Cut | Whole | None:
    """How that call runs in slices; None for one that runs as a whole and whose results have no
    rows that are known of."""
    rule = _RULES.get(node.target)
    if rule is None and elementwise.is_elementwise(node.target):
        rule = elementwise.cut
    found = None if rule is None else rule(node, known)
    if found is None and any(map(known.is_total, node.all_input_nodes)):
        of_sums = totals.RULES.get(node.target)
        return None if of_sums is None else of_sums(node, known)
    return found
