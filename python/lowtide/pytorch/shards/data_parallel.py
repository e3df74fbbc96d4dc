"""PyTorch's DistributedDataParallel around a module whose gradients a planned graph reduces."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import NoReturn

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from ... import InputError
from .group import copy_of_first


def all_around(module: torch.nn.Module) -> list[DistributedDataParallel]:
    """Those that exist and have the module in them: frameworks hand out the module alone."""
    return [found for found in gc.get_objects()
            if issubclass(type(found), DistributedDataParallel)
            and any(part is module for part in found.modules())]


def why_not_instead(ddp: DistributedDataParallel, module: torch.nn.Module) -> str:
    """Why a plan for all ranks of ``module`` cannot do what ``ddp`` does; "" where it can."""
    own = set(module.parameters())
    others = [name for name, parameter in ddp.module.named_parameters()
              if parameter.requires_grad and parameter not in own]
    if others:
        return (f"it also trains \"{others[0]}\", which is no parameter of "
                f"{type(module).__name__}")
    if ddp.parameters_to_ignore:
        return f"it leaves the gradient of \"{min(ddp.parameters_to_ignore)}\" as it is"
    if ddp._comm_hooks:
        return "it has a communication hook, which changes what is reduced"
    if ddp.mixed_precision is not None:
        return "it has mixed_precision (lowtide.wrap has precision=\"bf16\" instead)"
    return ""


def require_instead(ddp: DistributedDataParallel, module: torch.nn.Module) -> None:
    """Raises InputError where a plan cannot do what ``ddp`` does."""
    why_not = why_not_instead(ddp, module)
    if why_not:
        raise InputError(f"with mesh or sharding, the plan reduces gradients instead of "
                         f"DistributedDataParallel, and here it cannot: {why_not}. Leave mesh and "
                         f"sharding out, and DistributedDataParallel reduces them")


def mesh_of_ranks(ddp: DistributedDataParallel, mesh: DeviceMesh | None = None) -> DeviceMesh:
    """Its ranks, as a mesh of one dimension, or the mesh that was given. Raises InputError where
    that is not one of its ranks."""
    if not isinstance(mesh, DeviceMesh):  # and is refused as what it is, unless it is None
        return DeviceMesh.from_group(ddp.process_group, ddp.device_type) if mesh is None else mesh
    ranks = dist.get_process_group_ranks(ddp.process_group)
    if sorted(mesh.mesh.flatten().tolist()) != ranks:
        raise InputError(f"the mesh has other ranks than DistributedDataParallel, which reduces "
                         f"gradients over ranks {ranks}: leave mesh out")
    return mesh


def refuse_to_join(module: torch.nn.Module) -> NoReturn:
    """As ranks that have no batches any more cannot do what the others' plans wait for."""
    raise InputError(f"{type(module).__name__} trains on all ranks by one plan, in whose passes "
                     f"they wait for each other, so none can end before the others do, as join() "
                     f"and torch.distributed.algorithms.join.Join want it: give all ranks equally "
                     f"many batches, as drop_last=True of DistributedSampler does, or leave mesh "
                     f"and sharding out, so that DistributedDataParallel joins them")


class _NoReducer:
    """For a loop that prepares the backward pass itself, as Lightning does for manual
    optimization."""

    def prepare_for_forward(self) -> None:
        """Nothing is reduced."""

    def prepare_for_backward(self, results: list) -> None:
        """Nothing is reduced."""

    def _rebuild_buckets(self) -> bool:
        return False


def _share_buffers(ddp: DistributedDataParallel) -> None:
    """As it does itself, but in no messages that take memory, which nothing has counted."""
    if hasattr(ddp, "buffer_hook"):
        ddp._sync_buffers()
        return
    buffers = tuple(ddp.module.buffers())
    with torch.autograd._unsafe_preserve_version_counter(buffers):
        copy_of_first(buffers, ddp.process_group)


class Bypassed:
    """A DistributedDataParallel that reduces nothing and holds no buckets until ``end()``:
    ``call`` is what it calls, and ``no_sync`` what its own context manager of that name enters.
    ``is_whole``: whether its parameters are on each rank. A copy reduces gradients itself."""

    def __init__(self, ddp: DistributedDataParallel, call: Callable,
                 no_sync: Callable[[], contextlib.AbstractContextManager],
                 is_whole: Callable[[], bool]):
        self._ddp = ddp

        def forward(*arguments, **named):
            if ddp._check_sync_bufs_pre_fwd():
                _share_buffers(ddp)
            result = call(*arguments, **named)
            ddp.require_forward_param_sync = (torch.is_grad_enabled()
                                              and ddp.require_backward_grad_sync)
            return result

        @contextlib.contextmanager
        def without_communication() -> Iterator[None]:
            with DistributedDataParallel.no_sync(ddp), no_sync():
                yield

        def reduce(protocol):
            if not is_whole():
                raise InputError(f"{type(ddp.module).__name__} lies in shards on the ranks of a "
                                 f"mesh, and the DistributedDataParallel around it cannot be "
                                 f"copied or pickled: keep its state_dict(), which has whole "
                                 f"tensors, or give lowtide.wrap sharding=\"none\"")
            made, arguments, state, *more = DistributedDataParallel.__reduce_ex__(ddp, protocol)
            own = {name: value for name, value in state.items() if name not in self._instead}
            return made, arguments, own, *more

        def join(*_, **__):
            refuse_to_join(ddp.module)

        # Attributes of the object, as frameworks hold it; ``copy`` and ``pickle`` ask it too.
        self._instead = {"forward": forward, "no_sync": without_communication,
                         "join": join, "join_hook": join, "__reduce_ex__": reduce}
        vars(ddp).update(self._instead)
        # The buckets, each as large as the gradients in it, and the hooks of all parameters.
        ddp._remove_autograd_hooks()
        ddp.reducer, ddp.logger = _NoReducer(), None

    def end(self) -> None:
        """It reduces gradients again. All ranks do this together, when its module has its own
        parameters again."""
        ddp = self._ddp
        for name in self._instead:
            delattr(ddp, name)
        parameters, expect_sparse = ddp._build_params_for_reducer()
        names = ddp._build_debug_param_to_name_mapping(parameters)
        ddp._ddp_init_helper(parameters, expect_sparse, names, ddp.static_graph)
        ddp._has_rebuilt_buckets = False
        if ddp.static_graph:
            ddp.reducer._set_static_graph()
            ddp.logger._set_static_graph()
