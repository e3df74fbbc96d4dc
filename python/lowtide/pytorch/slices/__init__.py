"""A training step in slices: ops run on some rows of the batch after others.

What an op takes is then that of a slice, so a step needs less than its largest op. Gradients of
parameters are added up slice by slice: they round otherwise than those of the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from .batch_norm import by_sums
from .marks import marked
from .rewrite import rewritten


def in_slices(joint: fx.GraphModule, num_fwd_outputs: int, roles: Sequence[str],
              slices: int) -> tuple[fx.GraphModule, int]:
    """``joint`` with each op that treats rows of the batch apart run once for each slice; and the
    number of slices, which is 1 where nothing can be cut and never more than there are rows.

    ``roles``: by primal.
    """
    marks = None if slices < 2 else marked(joint, num_fwd_outputs, roles)
    if marks is not None and marks.whole:
        joint = by_sums(joint, marks)
        marks = marked(joint, num_fwd_outputs, roles)
    if marks is None:
        return joint, 1
    slices = min(slices, marks.size)
    return rewritten(joint, num_fwd_outputs, marks, slices), slices
