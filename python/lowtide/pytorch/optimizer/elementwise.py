"""The optimizers that treat each element of a parameter alone, and what they hold for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import optim

#: By class: which tensors as large as a parameter the state of one has, by the options of its
#: group. What else it has are numbers.
_TENSORS: dict[type, Callable[[Mapping], tuple[str, ...]]] = {
    optim.SGD: lambda group: _if(group["momentum"], "momentum_buffer"),
    optim.Adam: lambda group: ("exp_avg", "exp_avg_sq", *_if(group["amsgrad"], "max_exp_avg_sq")),
    optim.AdamW: lambda group: ("exp_avg", "exp_avg_sq", *_if(group["amsgrad"], "max_exp_avg_sq")),
    optim.NAdam: lambda group: ("exp_avg", "exp_avg_sq"),
    optim.RAdam: lambda group: ("exp_avg", "exp_avg_sq"),
    optim.Adamax: lambda group: ("exp_avg", "exp_inf"),
    optim.Adadelta: lambda group: ("square_avg", "acc_delta"),
    optim.Adagrad: lambda group: ("sum",),
    optim.RMSprop: lambda group: ("square_avg", *_if(group["momentum"], "momentum_buffer"),
                                  *_if(group["centered"], "grad_avg")),
    optim.ASGD: lambda group: ("ax",),
    optim.Rprop: lambda group: ("prev", "step_size"),
}


def state_tensors(optimizer: optim.Optimizer, group: Mapping) -> tuple[str, ...]:
    """Names of the tensors, each as large as a parameter of the group, of its state."""
    return _TENSORS[_known_class(optimizer)](group)


def why_not_by_element(optimizer: object) -> str:
    """Why the optimizer is not known to treat each element alone; "" where it is."""
    if not isinstance(optimizer, optim.Optimizer):
        return "the optimizer itself was not given, only what it is like"
    if _known_class(optimizer) is None:
        names = ", ".join(sorted(kind.__name__ for kind in _TENSORS))
        return (f"{type(optimizer).__name__} is not known to treat each element of a parameter "
                f"alone, as {names} of torch.optim do")
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return "with differentiable=True, autograd needs all of its state"
    return ""


def why_not_in_pieces(optimizer: object) -> str:
    """Why the optimizer's state cannot come back in pieces; "" where it can."""
    why_not = why_not_by_element(optimizer)
    if why_not:
        return why_not
    assert isinstance(optimizer, optim.Optimizer)
    if not any(state_tensors(optimizer, group) for group in optimizer.param_groups):
        return f"{type(optimizer).__name__} holds no tensors with these options"
    return ""


def _known_class(optimizer: object) -> type | None:
    """A class derived from a known one is like it where it steps as that does."""
    kind = next((kind for kind in type(optimizer).__mro__ if kind in _TENSORS), None)
    return kind if kind and _own_step(type(optimizer)) is _own_step(kind) else None


def _own_step(kind: type) -> object:
    """Without the code that runs hooks, which PyTorch puts around the step of the first class of
    which it makes an object: a derived one, where none of its base was made before."""
    step = getattr(kind, "step")  # noqa: B009
    return step.__wrapped__ if getattr(step, "hooked", False) else step


def _if(has_it: object, name: str) -> tuple[str, ...]:
    return (name,) if has_it else ()
