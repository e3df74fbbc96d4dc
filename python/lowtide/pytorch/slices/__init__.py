"""A training step in slices: ops run on some rows of the batch after others.

What an op takes is then that of a slice, so a step needs less than its largest op. Gradients of
parameters are added up slice by slice: they round otherwise than those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from .batch_norm import by_sums
from .marks import Marks, SliceOrder, marked
from .rewrite import rewritten

__all__ = ["SliceOrder", "in_slices", "order_of_slices"]


def in_slices(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str],
              slices: int, order: SliceOrder | None = None) -> tuple[fx.GraphModule, int]:
    """``joint`` with each op that treats rows of the batch apart run once for each slice; and the
    number of slices, which is 1 where nothing can be cut and never more than there are rows.

    ``roles``: by primal. ``order``: that of the same graph at another size, if the slices are to
    run in it; otherwise this one's own bytes decide.
    """
    if slices < 2:
        return joint, 1
    joint, marks = _marked(joint, num_fwd_outputs, roles, order)
    if marks is None:
        return joint, 1
    slices = min(slices, marks.size)
    return rewritten(joint, num_fwd_outputs, marks, slices), slices


def order_of_slices(joint: fx.GraphModule, num_fwd_outputs: int,
                    roles: Sequence[str]) -> SliceOrder | None:
    """The order that the graph's own bytes decide; None where nothing runs in slices."""
    _, marks = _marked(joint, num_fwd_outputs, roles, None)
    return None if marks is None else marks.order


def _marked(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str],
            order: SliceOrder | None) -> tuple[fx.GraphModule, Marks | None]:
    """What runs in slices, and the graph in which it does."""
    marks = marked(joint, num_fwd_outputs, roles, order)
    if marks is None or not marks.whole:
        return joint, marks
    joint = by_sums(joint, marks)
    return joint, marked(joint, num_fwd_outputs, roles, order)
