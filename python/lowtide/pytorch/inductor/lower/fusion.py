"""Limits the fusions of Inductor that would undo what a plan saves.

Two kernels that read the same values may be fused although neither reads what the other makes. One
of them then runs when the other does: what a plan computes again right before its use would be made
as soon as something else reads what it is made of, and be held until then.

A kernel may also be fused with one that reads what it makes, and runs when that does. What reduces
a large value to a small one, such as each step's part of a bias' gradient, would wait for what
reads the small one while the large one is held; what others read as well would make them wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.custom_graph_pass import get_hash_for_files
from torch._inductor.virtualized import V

from . import saved_inputs

#: How many kernels apart two may be in the graph's order to become one.
NEAR = 4


class NearFusion(InductorChoices):
    """Inductor's choices, with such kernels fused only where they are next to each other."""

    @staticmethod
    def can_fuse_horizontal(scheduler, node1, node2, shared_data_score: int) -> bool:
        return _are_near(node1, node2) and InductorChoices.can_fuse_horizontal(
            scheduler, node1, node2, shared_data_score)

    @staticmethod
    def can_fuse_vertical(scheduler, node1, node2, shared_data_score: int) -> bool:
        gains_little = node1.is_reduction() or _is_read_elsewhere(node1, node2)
        return (_are_near(node1, node2) or not gains_little) and InductorChoices.can_fuse_vertical(
            scheduler, node1, node2, shared_data_score)

    def uuid(self) -> bytes:
        """For the cache of compiled graphs: of all that compiling near changes."""
        return get_hash_for_files((__file__, saved_inputs.__file__))


def _are_near(node1, node2) -> bool:
    apart = max(node1.max_order - node2.min_order, node2.max_order - node1.min_order)
    return apart <= NEAR


def _is_read_elsewhere(made, reader) -> bool:
    """Whether what a kernel makes lies in memory even when it is computed inside a reader."""
    inside = made.get_operation_names() | reader.get_operation_names()
    return any(user.get_name() not in inside
               for buffer in made.get_outputs() for user in buffer.users)


@contextlib.contextmanager
def fusion(near: bool) -> Iterator[None]:
    """Within it Inductor fuses as it does, or with ``near`` as ``NearFusion``."""
    if not near:
        yield
        return
    with config.patch(inductor_choices_class=NearFusion), V.set_choices_handler(NearFusion()):
        yield
