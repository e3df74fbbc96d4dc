"""The user's model, inputs and optimizer as a training step on fake tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import InputError
from ..budget.optimizer_state import optimizer_state_bytes
from ..budget.optimizer_step import as_groups
from ..budget.optimizer_trial import make_optimizer, wants_closure
from ..capture.meta import attributes_of, fake_copies, fake_module, held_by
from ..common.inputs import tensors_in
from ..common.precision import autocast_in
from .known_values import may_be_known


@dataclasses.dataclass(frozen=True)
class FakeStep:
    """A training step as a program would run it: the model and what it is called with, all fake.

    ``call``: the model, or one of its methods. ``context``: in which that is called, as under
    ``torch.autocast``. ``known``: small tensors of the batch and buffers, each with the one that it
    stands for.
    """

    mode: FakeTensorMode
    model: Callable
    call: Callable
    arguments: Sequence
    named: Mapping
    optimizer: torch.optim.Optimizer | None
    context: Callable[[], contextlib.AbstractContextManager]
    known: Sequence[tuple[torch.Tensor, torch.Tensor]]

    @property
    def modules(self) -> Mapping[str, torch.nn.Module]:
        return dict(self._module.named_modules())

    @property
    def parameters(self) -> list[torch.Tensor]:
        """Of the model and of the optimizer, each once."""
        groups = self.optimizer.param_groups if self.optimizer else []
        others = [parameter for group in groups for parameter in group["params"]]
        both = (*self._module.parameters(), *others)
        return list({id(parameter): parameter for parameter in both}.values())

    @property
    def buffers(self) -> list[torch.Tensor]:
        return list(self._module.buffers())

    @property
    def batch(self) -> list[torch.Tensor]:
        return tensors_in((self.arguments, self.named))

    @property
    def _module(self) -> torch.nn.Module:
        """An empty one for a function."""
        return self.model if isinstance(self.model, torch.nn.Module) else torch.nn.Module()


def fake_step(model: Callable, arguments: Sequence, named: Mapping, optimizer,
              precision: str | None) -> FakeStep:
    """The step of a model on the device where it is, or on the CPU for one on ``meta``.

    ``optimizer``: as for ``optimizer_state_bytes``. Nothing of the model's size is allocated, and
    the model stays as it is. Raises InputError for what cannot be copied, and for an optimizer that
    is none, or is known by name alone, or calls the model itself.
    """
    owner = _owner_of(model)
    held, given = held_by(owner), tensors_in((tuple(arguments), dict(named)))
    _require_shapes(held)
    trained = [tensor for tensor in held
               if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad]
    kind, groups = _class_and_groups(optimizer, trained)
    where = next((tensor.device for tensor in (*held, *given)), torch.device("cpu"))
    device = torch.device("cpu") if where.type == "meta" else where
    # A function with tensors of its own would be traced on these, and change them.
    mode = FakeTensorMode(allow_non_fake_inputs=isinstance(owner, torch.nn.Module))
    stepped = [tensor for parameters, _ in groups for tensor in parameters]
    attributes = attributes_of(owner)
    copies = fake_copies(mode, (*held, *attributes, *given, *stepped), device)
    known = [(copies[id(tensor)], tensor) for tensor in (*held, *attributes, *given)
             if may_be_known(tensor)]
    arguments, named = pytree.tree_map(lambda leaf: copies.get(id(leaf), leaf),
                                       (tuple(arguments), dict(named)))
    fake = fake_module(mode, owner, copies, where, device)
    call = fake if owner is model else types.MethodType(inspect.unwrap(model).__func__, fake)
    return FakeStep(mode, fake, call, arguments, named, _fake_optimizer(mode, kind, groups, copies),
                    functools.partial(autocast_in, precision, device.type), known)


def _owner_of(model: Callable) -> Callable:
    """The module of one of its methods; else what is called."""
    owner = getattr(model, "__self__", None)
    owner = owner if isinstance(owner, torch.nn.Module) else model
    if isinstance(owner, torch.jit.ScriptModule):
        raise InputError("an estimate follows the Python code of a module, and TorchScript has "
                         "none: give the module that it was made from")
    return owner


def _require_shapes(held: Iterable[torch.Tensor]) -> None:
    if any(torch.nn.parameter.is_lazy(tensor) for tensor in held):
        raise InputError("the model has parameters whose shapes its first call decides: call it "
                         "once before the estimate")


def _class_and_groups(optimizer, trained: Iterable[torch.Tensor]):
    optimizer_state_bytes(optimizer, ())  # refuses what is no optimizer
    if optimizer == "none":
        return None, []
    if optimizer == "lion":
        raise InputError("PyTorch has no lion: give the optimizer itself, or its class")
    return as_groups(optimizer, list(trained))


def _fake_optimizer(mode, kind, groups, copies) -> torch.optim.Optimizer | None:
    if kind is not None and wants_closure(kind):
        raise InputError(f"{kind.__name__} calls the model itself in its step, so that an estimate "
                         f"of one forward and backward pass does not hold for it")
    if kind is None or not any(parameters for parameters, _ in groups):
        return None
    with mode:
        try:
            return make_optimizer(kind, [
                ([copies[id(parameter)] for parameter in parameters], options)
                for parameters, options in groups])
        except Exception as error:
            raise InputError(f"{kind.__name__} cannot be made for an estimate ({error}): name the "
                             f"one that it is like, as in optimizer=\"adam\"") from error
