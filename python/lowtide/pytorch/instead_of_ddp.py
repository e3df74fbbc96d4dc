"""``wrap`` of a module that is within DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.parallel import DistributedDataParallel

from .. import InputError
from .budget.settings import Settings
from .planned_class import in_class_of_its_own, session_of
from .ranks_and_frameworks import on_ranks_of
from .shards.data_parallel import Bypassed, require_instead
from .shards.group import Group
from .shards.whole_state import WholeState


def wrapped_within(ddp: DistributedDataParallel, settings: Settings, group: Group | None,
                   wrapped: Callable[[torch.nn.Module], torch.nn.Module]) -> torch.nn.Module:
    """As of ``wrap``, whose ``wrapped(module)`` plans the module within. With ``group``, the ranks
    that plan together, the plan reduces gradients, and ``ddp`` does not any more; its state stays
    whole. Where no plan fits, ``ddp`` is as it was."""
    if group is not None:
        require_instead(ddp, ddp.module)
    elif settings.fused_update is not None:
        raise InputError("fused_update updates before DistributedDataParallel has added up the "
                         "gradients of all processes: leave it out, or give sharding=\"none\", by "
                         "which the plan adds them up")
    inner = ddp.module
    module = wrapped(inner)
    if group is not None:
        on_ranks = on_ranks_of(module)
        on_ranks.leave_buffers()
        Bypassed(ddp, module, on_ranks.no_sync, on_ranks.is_whole)
        if on_ranks.placed is not None:
            WholeState(inner, settings.optimizer, on_ranks.placed, on_ranks.group)
    return in_class_of_its_own(ddp, session_of(module),
                               {"module": property(lambda self: module)})
