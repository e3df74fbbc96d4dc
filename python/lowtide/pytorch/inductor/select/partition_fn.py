"""A partitioner for Inductor: splits a joint graph within a budget."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping

from torch import fx
from torch._inductor.custom_graph_pass import CustomPartitionerFn, get_hash_for_files

from .... import plan
from ...budget.budget import Budget
from ...budget.settings import MOVES, TIME_LIMIT
from ..lower.lowering import lowered
from ..split.joint import Joint
from .candidate import Candidate, require_fit
from .evaluate import Lowering
from .select import select

#: Work of the default strategy: estimated costs are worth no proof, and in which order a half runs
#: Inductor decides.
EFFORT = {"moves": MOVES, "bound": 0.3, "prove": 0, "order": 0}


class PlannedPartition(CustomPartitionerFn):
    """``torch._inductor.config.custom_partitioner_fn`` that keeps a budget.

    ``budget``: bytes of parameters, buffers, inputs and all that the step holds above them,
    gradients among it, ``other_bytes`` included that the graph does not know of; or a share such
    as ``"60%"`` of what the step takes with PyTorch's own split; or None for no limit.
    ``after_bytes``: what it is to hold above parameters, buffers, inputs, results and others when
    the passes are over, such as gradients and what the optimizer's step takes for a while.
    ``strategy`` and ``options`` are those of ``lowtide.plan``, ``time_limit`` is in seconds for
    each plan. Once a training step was split, ``found`` says how.
    ``over``: where nothing is found within the budget, the smallest split takes its place if it
    exceeds the budget by no more than this part of it; otherwise InfeasibleError is raised.
    ``only_pytorch``: of PyTorch's splits alone.
    ``lowering``: what tells the peak and the time of a split. ``joint`` is the graph that was split
    last; ``described``, set before, says what its inputs are, as of ``describe_inputs``.
    """

    def __init__(
        self, budget: Budget | int | str | None, *, strategy: str | None = None,
        options: Mapping[str, float | str] | None = None, time_limit: float = TIME_LIMIT,
        over: float = 0.0, only_pytorch: bool = False, other_bytes: int = 0,
        after_bytes: int = 0, lowering: Lowering = lowered,
    ):
        self._budget = Budget.parse(budget)
        self._other_bytes, self._after_bytes = other_bytes, after_bytes
        self._planner = None if only_pytorch else functools.partial(
            plan, strategy=strategy, options=_effort(strategy, options), time_limit=time_limit)
        self._over, self._lowering = over, lowering
        self.found: Candidate | None = None
        self.joint: Joint | None = None
        self.described: list[tuple[str, str]] | None = None

    def uuid(self) -> bytes:
        """For the cache of compiled graphs, whose keys hold the split graphs themselves."""
        return get_hash_for_files((__file__,))

    def __deepcopy__(self, _memo) -> PlannedPartition:
        """Itself: PyTorch copies its configuration for cache keys, which a plan is no part of."""
        return self

    def __getstate__(self) -> dict:
        """Nothing: PyTorch pickles its configuration for those keys."""
        return {}

    def __call__(
        self, gm: fx.GraphModule, joint_inputs, *, num_fwd_outputs: int,
        static_lifetime_input_indices: list[int] | None = None, **_,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        joint = Joint(gm, joint_inputs, num_fwd_outputs, static_lifetime_input_indices or [],
                      self.described)
        found = select(joint, self._budget, self._planner, self._other_bytes, self._lowering,
                       self._after_bytes)
        self.found, self.joint = require_fit(found, self._over), joint
        forward, backward = self.found.halves
        return _copy(forward), _copy(backward)


def _copy(half: fx.GraphModule) -> fx.GraphModule:
    """Of its graph: what compiles it changes that."""
    return fx.GraphModule(half, copy.deepcopy(half.graph))


def _effort(strategy, options):
    return {**({} if strategy else EFFORT), **(options or {})}
