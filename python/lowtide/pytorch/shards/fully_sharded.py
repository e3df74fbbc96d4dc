"""Models that were prepared by PyTorch's ``fully_shard``: their parameters stay, their hooks go."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.utils.hooks import RemovableHandle

from ... import InputError
from .layout import GraphLayout, ShardLayout
from .types_of_modules import compute_in_types, types_of_gradients

_MARKS = ("_is_fsdp_managed_module", "_fsdp_use_orig_params")


def is_fully_sharded(model: torch.nn.Module) -> bool:
    return any(isinstance(module, FSDPModule) for module in model.modules())


def mesh_of(model: torch.nn.Module) -> DeviceMesh:
    """Where the parameters lie. Raises InputError where that is not in rows on one mesh."""
    meshes: list[DeviceMesh] = []
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, DTensor) or not _lies_in_rows(parameter):
            raise InputError(f"parameter \"{name}\" does not lie in rows on the ranks: of models "
                             f"that were prepared by fully_shard, Lowtide trains those with all "
                             f"parameters in shards of rows")
        meshes.append(parameter.device_mesh)
    if any(mesh != meshes[0] for mesh in meshes):
        raise InputError("the parameters of the model lie on several meshes: call fully_shard with "
                         "one")
    return meshes[0]


def _lies_in_rows(parameter: DTensor) -> bool:
    """Along the last dimension of its mesh, with copies along the first one of two."""
    *copies, shards = parameter.placements
    return shards.is_shard(0) and len(copies) <= 1 and all(copy.is_replicate() for copy in copies)


def layout_of(model: torch.nn.Module, like: GraphLayout,
              reduced_in: Mapping[torch.nn.Parameter, torch.dtype]) -> GraphLayout:
    """As ``like``, with the shards that the parameters are in. ``reduced_in``: as of
    ``without_hooks``."""
    shards = {name: ShardLayout(tuple(parameter.shape), parameter.device_mesh.shape[-1],
                                reduced_in.get(parameter))
              for name, parameter in model.named_parameters(remove_duplicate=False)}
    return dataclasses.replace(like, shards=shards)


@contextlib.contextmanager
def without_hooks(model: torch.nn.Module
                  ) -> Iterator[Mapping[torch.nn.Parameter, torch.dtype]]:
    """From here on the modules are those that they were before ``fully_shard``, but for their
    parameters, and for the types that its ``mp_policy`` has them compute in. Where the block
    raises, they are again as they were. Gives by parameter the type that its gradient is reduced
    in, where that is not its own. Raises InputError for what the hooks did and plans do not."""
    prepared = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for module in prepared:
        _require_plain(module)
    reduced_in: dict[torch.nn.Parameter, torch.dtype] = {}
    with contextlib.ExitStack() as undone:
        for module in prepared:
            module.reshard()
            state = module._get_fsdp_state()
            _take_away(module._forward_pre_hooks, state._pre_forward_hook_handle, undone)
            _take_away(module._forward_hooks, state._post_forward_hook_handle, undone)
            undone.callback(setattr, module, "__class__", type(module))
            module.__class__ = type(module).__mro__[module._orig_cls_mro_index]
            parameters = _of_group(module, state)
            reduced_in |= types_of_gradients(parameters.values(), state._mp_policy)
            compute_in_types(module, list(parameters), state._mp_policy)
        for module in model.modules():
            for mark in _MARKS:
                if mark in module.__dict__:
                    undone.callback(setattr, module, mark, module.__dict__.pop(mark))
        yield reduced_in
        undone.pop_all()


def _require_plain(module: FSDPModule) -> None:
    state = module._get_fsdp_state()
    if len(state._modules) > 1 or not isinstance(state._pre_forward_hook_handle, RemovableHandle):
        raise InputError("fully_shard was called with a list of modules: call it with one at a "
                         "time")


def _of_group(module: torch.nn.Module, state: Any) -> dict[str, torch.nn.Parameter]:
    """By their names in the module, the parameters that ``fully_shard`` gathered for it: those that
    it was not called for in a module within."""
    groups = getattr(state, "_fsdp_param_groups", None)  # one before PyTorch 2.12
    if groups is None:
        groups = [] if state._fsdp_param_group is None else [state._fsdp_param_group]
    gathered = {one.sharded_param for group in groups for one in group.fsdp_params}
    return {name: parameter for name, parameter in module.named_parameters(remove_duplicate=False)
            if parameter in gathered}


def _take_away(hooks: dict[int, Any], handle: RemovableHandle,
               undone: contextlib.ExitStack) -> None:
    hook = hooks.pop(handle.id)
    undone.callback(hooks.__setitem__, handle.id, hook)
