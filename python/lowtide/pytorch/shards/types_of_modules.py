"""The types that modules compute in, as the ``mp_policy`` of ``fully_shard`` has them.

A module has casts of its parameters in their places while its forward runs, and casts of what it is
given and returns. So a graph that is traced has the casts as ops, and a gather sends few bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn.utils import stateless
from torch.utils import _pytree as pytree


def types_of_gradients(parameters: Iterable[torch.nn.Parameter], policy: MixedPrecisionPolicy
                       ) -> dict[torch.nn.Parameter, torch.dtype]:
    """In which they are reduced, by parameter, where that is not the parameter's own."""
    dtype = policy.reduce_dtype or policy.param_dtype
    return {parameter: dtype for parameter in parameters
            if dtype is not None and parameter.is_floating_point() and parameter.dtype != dtype}


def compute_in_types(module: torch.nn.Module, names: Sequence[str],
                     policy: MixedPrecisionPolicy) -> None:
    """The module gets a class of its own, whose forward computes as the policy has it with the
    parameters of these names."""
    if policy.param_dtype is None and policy.output_dtype is None:
        return
    own = type(module)
    given = policy.param_dtype if policy.cast_forward_inputs else None

    @functools.wraps(own.forward)
    def forward(self, *arguments, **named):
        cast = {name: _cast(self.get_parameter(name), policy.param_dtype) for name in names}
        with stateless._reparametrize_module(self, cast):
            outputs = own.forward(self, *_all_cast(arguments, given), **_all_cast(named, given))
        return _all_cast(outputs, policy.output_dtype)

    module.__class__ = type(own.__name__, (own,), {"forward": forward, "__module__": own.__module__,
                                                   "__doc__": own.__doc__})


def _all_cast(values: Any, dtype: torch.dtype | None) -> Any:
    return values if dtype is None else pytree.tree_map(lambda value: _cast(value, dtype), values)


def _cast(value: Any, dtype: torch.dtype | None) -> Any:
    is_cast = (dtype is not None and isinstance(value, torch.Tensor)
               and value.is_floating_point() and value.dtype != dtype)
    return value.to(dtype) if is_cast else value
