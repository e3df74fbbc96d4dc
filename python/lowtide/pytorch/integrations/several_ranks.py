"""A module with a budget on several ranks, where a framework would reduce gradients itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel

from ..common.notices import warn
from ..common.plain_optimizer import plain_optimizer
from ..ranks_and_frameworks import on_ranks_of
from ..shards.data_parallel import (
    Bypassed,
    all_around,
    mesh_of_ranks,
    require_instead,
    why_not_instead,
)
from ..shards.model_on_ranks import ModelOnRanks
from ..shards.whole_state import WholeState


class SeveralRanks:
    """``mesh``: the ranks that train ``module``. ``around``: what a framework has put around it,
    which reduces nothing until ``end()``. ``optimizer``: steps the parameters."""

    def __init__(self, module: torch.nn.Module, mesh: DeviceMesh,
                 around: Sequence[DistributedDataParallel], optimizer):
        self.mesh = mesh
        self._module, self._optimizer = module, optimizer
        self._on_ranks: ModelOnRanks | None = None
        self._state: WholeState | None = None
        self._bypassed = [Bypassed(ddp, ddp.module, self._no_sync, self._is_whole)
                          for ddp in around]

    @classmethod
    def found(cls, module: torch.nn.Module, settings: Mapping) -> SeveralRanks | None:
        """By ``mesh`` among the settings, or else by the DistributedDataParallel that the module is
        in; None for a module that is planned for this process alone. Raises InputError where the
        settings want a plan for all ranks and there can be none."""
        mesh, around = settings.get("mesh"), all_around(module)
        if not around and mesh is None:
            return None
        if mesh is not None or settings.get("sharding") is not None:
            for ddp in around:
                require_instead(ddp, module)
        for why_not in filter(None, (why_not_instead(ddp, module) for ddp in around)):
            warn(f"each rank plans {type(module).__name__} for itself, and DistributedDataParallel "
                 f"reduces gradients in memory that the budget does not count: {why_not}")
            return None
        mesh = mesh_of_ranks(around[-1], mesh) if around else mesh
        return cls(module, mesh, around, plain_optimizer(settings.get("optimizer")))

    def begin(self, planned: torch.nn.Module) -> None:
        """The planned module reduces gradients from now on."""
        on_ranks = self._on_ranks = on_ranks_of(planned)
        if self._bypassed:
            on_ranks.leave_buffers()
        if on_ranks.placed is not None:
            self._state = WholeState(self._module, self._optimizer, on_ranks.placed,
                                     on_ranks.group)

    def end(self) -> None:
        """All is as before, with the parameters and the state of now. All ranks do this
        together."""
        if self._state is not None:
            self._state.remove()
        if self._on_ranks is not None:
            self._on_ranks.give_back(self._optimizer)
        for bypassed in self._bypassed:
            bypassed.end()
        self._on_ranks, self._bypassed, self._state = None, [], None

    def _no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Of a pass that is begun before the module is planned, the gradients are reduced: their
        mean stays the same when that of the sum is taken."""
        return contextlib.nullcontext() if self._on_ranks is None else self._on_ranks.no_sync()

    def _is_whole(self) -> bool:
        return self._on_ranks is None or self._on_ranks.is_whole()

    @contextlib.contextmanager
    def whole_state(self) -> Iterator[None]:
        """While it lasts, the first rank alone may ask for the state of the module and of the
        optimizer, of which it holds a whole copy. All ranks enter it together."""
        if self._state is None:
            yield
            return
        self._state.hold()
        try:
            yield
        finally:
            self._state.let_go()
