"""What frameworks see of a module that trains on all ranks of a mesh."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import NoReturn

import torch

from .. import InputError
from .budget.settings import Settings
from .common.notices import Notices
from .shards.data_parallel import refuse_to_join
from .shards.model_on_ranks import ModelOnRanks


def members_on_ranks(model: torch.nn.Module, on_ranks: ModelOnRanks,
                     settings: Settings) -> dict[str, object]:
    """Of the planned module's class."""
    members: dict[str, object] = {
        "_lowtide_on_ranks": on_ranks,
        "_ddp_params_and_buffers_to_ignore": property(_refuse_second_reduction),
        "_is_accelerate_prepared": _Prepared(settings.precision),
        "__deepcopy__": _copying(model, on_ranks),
    }
    for name in "join", "join_hook":
        if not hasattr(model, name):
            members[name] = lambda self, *_, **__: refuse_to_join(model)
    if not hasattr(model, "no_sync"):
        members["no_sync"] = lambda self: on_ranks.no_sync()
    return members


def on_ranks_of(planned: torch.nn.Module) -> ModelOnRanks | None:
    """None for a module of one process."""
    return getattr(type(planned), "_lowtide_on_ranks", None)


def _copying(model: torch.nn.Module, on_ranks: ModelOnRanks) -> Callable:
    """A copy is the plain module, on this rank alone."""
    notices, kind = Notices(), type(model).__name__

    def deepcopy(self, memo):
        copied = copy.deepcopy(model, memo)
        if not on_ranks.is_whole():
            copied.forward = _CopyInShards(kind)
        else:
            notices.warn_once("copied", (
                f"{kind} trains on all ranks of a mesh, and its copy does not: it is the plain "
                f"module, whose gradients nobody reduces. It may hold an average of weights, or "
                f"evaluate; to train it, wrap it with the mesh"))
        return copied

    return deepcopy


class _CopyInShards:
    """The forward of a copy whose parameters lie in shards, which only a plan gathers."""

    def __init__(self, kind: str):
        self._kind = kind

    def __call__(self, *_, **__):
        raise InputError(f"this is a copy of {self._kind}, which lowtide.wrap has put in shards on "
                         f"the ranks of a mesh, and no plan gathers those of the copy. It holds "
                         f"them, as for an average of weights: to compute with them, load its "
                         f"state_dict() into the wrapped module, or into a plain one by the "
                         f"full_tensor() of each, which all ranks call together")


def _refuse_second_reduction(planned: torch.nn.Module) -> NoReturn:
    """DistributedDataParallel asks for this first of all."""
    raise InputError(f"{type(planned).__name__} trains on all ranks of a mesh by its plan, which "
                     f"reduces gradients, and DistributedDataParallel would do so a second time: "
                     f"use what lowtide.wrap returned as it is. In a trainer that makes "
                     f"DistributedDataParallel itself, give the trainer the plain module and "
                     f"Lowtide's callback")


class _Prepared:
    """By this Accelerate knows a model that needs no DistributedDataParallel, and takes it as it
    is. It computes in its own precision then."""

    def __init__(self, precision: str | None):
        self._precision = precision

    def __get__(self, planned, owner=None) -> bool:
        state = sys.modules.get("accelerate.state")
        shared = {} if state is None else state.AcceleratorState._shared_state
        wanted = shared.get("_mixed_precision", "no")
        if wanted in ("fp16", "bf16") and self._precision is None:
            raise InputError(f"mixed_precision=\"{wanted}\" of Accelerate is not for a model that "
                             f"lowtide.wrap planned on a mesh: give "
                             f"lowtide.wrap(..., precision=\"{wanted}\")")
        return True

    def __set__(self, planned, value) -> None:
        """Accelerate says that it has prepared the model."""
