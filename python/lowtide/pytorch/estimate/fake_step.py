"""The user's model, inputs and optimizer as a training step on fake tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from ... import InputError
from ..budget.optimizer_state import optimizer_state_bytes
from ..budget.optimizer_step import as_groups
from ..capture.meta import fake_copies, fake_module, held_by
from ..common.precision import autocast_in


@dataclasses.dataclass(frozen=True)
class FakeStep:
    """A training step as a program would run it: the model and what it is called with, all fake.

    ``context``: in which the model is called, as under ``torch.autocast``.
    """

    mode: FakeTensorMode
    model: Callable
    arguments: Sequence
    named: Mapping
    optimizer: torch.optim.Optimizer | None
    context: Callable[[], contextlib.AbstractContextManager]

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
        return _tensors(self.arguments, self.named)

    @property
    def _module(self) -> torch.nn.Module:
        """An empty one for a function."""
        return self.model if isinstance(self.model, torch.nn.Module) else torch.nn.Module()


def fake_step(model: Callable, arguments: Sequence, named: Mapping, optimizer,
              precision: str | None) -> FakeStep:
    """The step of a model on the device where it is, or on the CPU for one on ``meta``.

    ``optimizer``: as for ``optimizer_state_bytes``. Nothing of the model's size is allocated, and
    the model stays as it is. Raises InputError for what cannot be copied, and for an optimizer that
    is none, or is known by name alone.
    """
    held, given = held_by(model), _tensors(arguments, named)
    trained = [tensor for tensor in held
               if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad]
    kind, groups = _class_and_groups(optimizer, trained)
    where = next((tensor.device for tensor in (*held, *given)), torch.device("cpu"))
    device = torch.device("cpu") if where.type == "meta" else where
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    stepped = [tensor for parameters, _ in groups for tensor in parameters]
    copies = fake_copies(mode, (*held, *given, *stepped), device)
    arguments, named = pytree.tree_map(lambda leaf: copies.get(id(leaf), leaf),
                                       (tuple(arguments), dict(named)))
    return FakeStep(mode, fake_module(mode, model, copies, where, device), arguments, named,
                    _fake_optimizer(mode, kind, groups, copies),
                    functools.partial(autocast_in, precision, device.type))


def _tensors(arguments: Sequence, named: Mapping) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves((tuple(arguments), dict(named)))
            if isinstance(leaf, torch.Tensor)]


def _class_and_groups(optimizer, trained: Iterable[torch.Tensor]):
    optimizer_state_bytes(optimizer, ())  # refuses what is no optimizer
    if optimizer == "none":
        return None, []
    if optimizer == "lion":
        raise InputError("PyTorch has no lion: give the optimizer itself, or its class")
    return as_groups(optimizer, list(trained))


def _fake_optimizer(mode, kind, groups, copies) -> torch.optim.Optimizer | None:
    if kind is None or not any(parameters for parameters, _ in groups):
        return None
    with mode:
        try:
            return kind([{"params": [copies[id(parameter)] for parameter in parameters], **options}
                         for parameters, options in groups])
        except Exception as error:
            raise InputError(f"{kind.__name__} cannot be made for an estimate ({error}): name the "
                             f"one that it is like, as in optimizer=\"adam\"") from error
