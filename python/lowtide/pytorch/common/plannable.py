"""What kind of module can be planned at all."""

from __future__ import annotations

import itertools

import torch

from ... import InputError


def require_plannable(model) -> None:
    """Raises InputError for what is no module of Python code, or is not complete."""
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"wrap() wants a torch.nn.Module, not {type(model).__name__}; for a "
                         f"function use torch.compile(function, backend=\"lowtide\")")
    name = type(model).__name__
    if isinstance(model, torch.jit.ScriptModule):
        raise InputError(f"{name} is compiled by TorchScript, which cannot be traced: wrap the "
                         f"module that it was made of")
    if (isinstance(model, torch._dynamo.eval_frame.OptimizedModule)
            or model._compiled_call_impl is not None):
        raise InputError(f"{name} was compiled by torch.compile: wrap the module that you "
                         f"compiled instead (with mode=\"inductor\" for compiled code)")
    _require_shapes(model, name)


def _require_shapes(model: torch.nn.Module, name: str) -> None:
    """A trace would draw the first values of lazy parameters, and put the generator back."""
    for tensor_name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        if torch.nn.parameter.is_lazy(tensor):
            raise InputError(f"the shape of \"{tensor_name}\" of {name} is decided by the first "
                             f"call: call {name} once, such as under torch.no_grad(), and then "
                             f"wrap it")
