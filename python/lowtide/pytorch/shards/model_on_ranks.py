"""A model that is trained on all ranks of a mesh."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch

from ... import InputError
from .accumulation import LocalAccumulation
from .group import Group
from .layout import GraphLayout
from .optimizers import state_as_on_first, step_instead
from .placed_parameters import PlacedParameters, whole_of
from .shared_buffers import SharedBuffers


class ModelOnRanks:
    """``placed``: its parameters, where any lies in shards; None: each rank has plain copies.
    ``parameters``: gives what is counted as its parameters. ``is_only_planned``: whether they are
    others than the model has, which is planned as though it had these, and nothing runs."""

    def __init__(self, group: Group, placed: PlacedParameters | None,
                 parameters: Callable[[], Iterable[torch.Tensor]], is_only_planned: bool = False):
        #: Whether the backward pass updates parameters.
        self.updates = False
        self.group, self.placed, self.parameters = group, placed, parameters
        self.is_only_planned = is_only_planned
        self._copies = LocalAccumulation(group, parameters) if placed is None else None
        self._buffers: SharedBuffers | None = None

    @classmethod
    def of(cls, model: torch.nn.Module, group: Group, layout: GraphLayout,
           optimizer) -> ModelOnRanks:
        """The model's parameters are placed on the mesh, and the optimizer steps them there. All
        ranks begin with the parameters, buffers and optimizer state that the first one has."""
        group.as_on_first([*model.parameters(), *model.buffers()])
        state_as_on_first(optimizer, group)
        if layout.shards:
            placed = PlacedParameters(model, group, layout)
            step_instead(optimizer, placed.replaced, placed.like)
            found = cls(group, placed, placed.parameters)
        else:
            found = cls(group, None, model.parameters)
        found._buffers = SharedBuffers(model, group)
        return found

    @classmethod
    def placed_before(cls, model: torch.nn.Module, group: Group,
                      layout: GraphLayout) -> ModelOnRanks:
        """The model's parameters are DTensors in shards, and stay so. Each rank has buffers of its
        own, as by ``fully_shard``."""
        placed = PlacedParameters(model, group, layout)
        return cls(group, placed, placed.parameters)

    def give_back(self, optimizer) -> None:
        """The model and the optimizer have their own parameters and state again, whole on each
        rank. All ranks do this together."""
        if self.placed is not None:
            step_instead(optimizer, self.placed.give_back(), lambda value, _: whole_of(value))
            self.placed = None

    def is_whole(self) -> bool:
        """Whether each rank has all parameters."""
        return self.placed is None

    def leave_buffers(self) -> None:
        """What is around the model shares its buffers among ranks, or is told not to."""
        self._buffers = None

    def in_forward(self) -> contextlib.AbstractContextManager[None]:
        """Around the model's forward."""
        if self._buffers is not None:
            self._buffers.begin_forward()
        if self.placed is not None:
            return self.placed.in_forward()
        self._copies.reduce_what_is_left()
        return contextlib.nullcontext()

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Backward passes in it may leave gradients unreduced until the next forward pass behind
        it. Gradients of shards are reduced all the same: nobody has room for whole ones. Raises
        InputError where the backward pass updates parameters, which needs the sum."""
        if self.updates:
            raise InputError("no_sync() adds up the gradients of several backward passes, and with "
                             "fused_update each of them updates the parameters: leave one of them "
                             "out")
        return self._without_sync()

    @contextlib.contextmanager
    def _without_sync(self) -> Iterator[None]:
        with contextlib.ExitStack() as parts:
            if self._copies is not None:
                parts.enter_context(self._copies.no_sync())
            if self._buffers is not None:
                parts.enter_context(self._buffers.no_sync())
            yield
