"""``wrap`` of a module that is within DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from .. import InputError
from .budget.settings import Settings
from .planned_class import in_class_of_its_own, session_of
from .ranks_and_frameworks import on_ranks_of
from .shards.data_parallel import Bypassed, mesh_of_ranks, require_instead
from .shards.whole_state import WholeState


def wrapped_within(ddp: DistributedDataParallel, settings: Settings, mesh: DeviceMesh | None,
                   sharding: str | None,
                   wrapped: Callable[[torch.nn.Module, DeviceMesh | None], torch.nn.Module]
                   ) -> torch.nn.Module:
    """As of ``wrap``, whose ``wrapped(module, mesh)`` plans the module within. With a mesh or a
    sharding the plan reduces gradients, and ``ddp`` does not any more; its state stays whole.
    Where no plan fits, ``ddp`` is as it was."""
    on_all_ranks = mesh is not None or sharding is not None
    if on_all_ranks:
        require_instead(ddp, ddp.module)
        mesh = mesh_of_ranks(ddp, mesh)
    elif settings.fused_update is not None:
        raise InputError("fused_update updates before DistributedDataParallel has added up the "
                         "gradients of all processes: leave it out, or give sharding=\"none\", by "
                         "which the plan adds them up")
    inner = ddp.module
    module = wrapped(inner, mesh)
    if on_all_ranks:
        on_ranks = on_ranks_of(module)
        Bypassed(ddp, module, on_ranks.no_sync)
        if on_ranks.placed is not None:
            WholeState(inner, settings.optimizer, on_ranks.placed, on_ranks.group)
    return in_class_of_its_own(ddp, session_of(module),
                               {"module": property(lambda self: module)})
