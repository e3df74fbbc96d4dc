"""Whether the state of a model's optimizer lies in slower memory, decided with its plans."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ... import InfeasibleError, InputError, Plan, format_bytes
from ..budget.account import BudgetAccount
from ..budget.memory import Moved
from ..budget.settings import Settings
from ..optimizer.elementwise import why_not_in_pieces
from ..optimizer.moving_optimizer import MovingOptimizer
from ..optimizer.needs import Needs, needs
from ..optimizer.pieces import piece_bytes
from ..optimizer.piecewise import Piecewise
from ..plans.cost_units import as_cost
from ..plans.slower import Slower
from .region import Region


class PlaceOfState:
    """Of the state of the settings' optimizer, which is in memory until ``choose`` finds that it
    is to move, and moves with ``settle``; ``choose`` also finds that it may come back, which it
    does with ``bring_back``. Until then ``give_up`` forgets what was chosen.

    ``lock``: is held by who calls these, as the optimizer may step in another thread. Raises
    InputError where the settings want it to move and it cannot.
    """

    def __init__(self, settings: Settings, account: BudgetAccount, lock: AbstractContextManager):
        self._settings, self._account = settings, account
        is_alone = settings.layout is None  # of several ranks, values move alone
        self._wanted = (settings.offload.optimizer_state
                        if settings.offload and is_alone and not settings.fused_update else False)
        why_not = "" if self._wanted is False else why_not_in_pieces(settings.optimizer)
        if self._wanted and why_not:
            raise InputError(f"optimizer_state=True: {why_not}. Leave it out, and the state stays "
                             f"in memory")
        #: Of messages that a budget is too small, where the state would move if it could.
        self.remark = (f" The optimizer's state stays in memory: {why_not}."
                       if why_not and settings.optimizer != "none" else "")
        may_move = self._wanted is not False and not why_not
        self._given: Any = settings.optimizer
        self._optimizer = MovingOptimizer(self._given, lock) if may_move else None
        #: What is chosen, and what is so.
        self._moving: Needs | None = None
        self._settled: Needs | None = None

    def choose(self, region: Region, regions: Iterable[Region], slower: Slower | None,
               planned: Callable[[], Plan], planned_tightly: Callable[[], Plan]) -> None:
        """Decides for the time being, where it is in memory yet: it moves where the region has no
        plan otherwise, or one by which a step takes longer than one that moves the state.

        ``planned``: makes the region's plan, as things are then, by which the optimizer has all
        room that its step takes; raises InfeasibleError. ``planned_tightly``: the same where it may
        have less.
        """
        if self._optimizer is None or slower is None:
            return
        if self._account.moves_state:
            if self.moves:
                self._choose_again(region, regions, slower, planned)
            return
        wanted = self._needs(region)
        if not slower.has_room(wanted.moved_bytes):
            self._refuse_small_limit(wanted, slower)
            return
        kept = None if self._wanted else _if_any(planned)
        cost = _cost(wanted, region, slower)
        if kept is not None and kept.cost - region.priced.keep_all_cost <= cost:
            return
        self._set(wanted, regions, slower)
        moved = None if self._wanted else _if_any(planned)
        if kept is not None and (moved is None or moved.cost + cost >= kept.cost):
            self._set(None, regions, slower)
        elif moved is None and not self._wanted and _if_any(planned_tightly) is None:
            # Where less of what follows has room, or none, the buffers for moves may be too much.
            self._set(None, regions, slower)
            if _if_any(planned_tightly) is None:
                self._set(wanted, regions, slower)

    def _choose_again(self, region: Region, regions: Iterable[Region], slower: Slower,
                      planned: Callable[[], Plan]) -> None:
        """Whether there is room for it now, by a larger budget, or for smaller pieces alone, by a
        smaller one."""
        moving = self._moving
        if moving is None:
            return
        if not self._wanted:
            self._set(None, regions, slower)
            kept = _if_any(planned)
            extra = None if kept is None else kept.cost - region.priced.keep_all_cost
            if extra is not None and extra <= _cost(moving, region, slower):
                return
            self._set(moving, regions, slower)
            if kept is not None and _if_any(planned) is None:
                self._set(None, regions, slower)
                return
        if _if_any(planned) is None:
            smaller = self._needs(region)
            if smaller.step_bytes < moving.step_bytes:
                self._set(smaller, regions, slower)

    def settle(self, device: str, slower: Slower | None) -> None:
        """Sends the state away, if that was decided. Raises Error where there is no room."""
        wanted = self._moving
        if wanted is not None and wanted is not self._settled:
            with _disable_current_modes(), torch.inference_mode(False):
                self._optimizer.move(self._given, Piecewise(
                    self._given, slower, _full(device), wanted.largest_bytes,
                    self._optimizer.piecewise))
            self._settled = wanted

    def bring_back(self) -> None:
        """Has the state come back, if that was decided. Raises Error where a copy fails."""
        if self.moves and not self._account.moves_state:
            self._settled = None
            with _disable_current_modes(), torch.inference_mode(False):
                self._optimizer.bring_back(self._given)

    def give_up(self, regions: Iterable[Region], slower: Slower | None) -> None:
        """What was decided and not done is to be decided again."""
        if slower is not None and self._moving is not self._settled:
            self._set(self._settled, regions, slower)

    def chosen_cost(self, region: Region, slower: Slower | None) -> float:
        """What a step takes longer by what is chosen, in the unit of the region's costs."""
        return _cost(self._moving, region, slower) if self._moving and slower else 0.0

    @contextlib.contextmanager
    def counted_in_memory(self, regions: Iterable[Region]) -> Iterator[bool]:
        """What these regions are planned with as if the state stayed in memory. Gives whether it is
        to move and may stay."""
        moving = self._moving
        if moving is None or self._wanted:
            yield False
            return
        self._count(None, regions)
        try:
            yield True
        finally:
            self._count(moving, regions)

    def let_go(self) -> None:
        """The optimizer steps as it did before."""
        if self._optimizer is not None:
            self._optimizer.let_go()

    @property
    def is_in_use(self) -> bool:
        """Whether the optimizer steps now, perhaps in another thread, so that nothing may move."""
        return self._optimizer is not None and self._optimizer.is_in_use

    def end_use(self) -> None:
        """It does not step any more; it may have failed."""
        if self._optimizer is not None:
            self._optimizer.is_in_use = False

    @property
    def moves(self) -> bool:
        return self._optimizer is not None and self._optimizer.piecewise is not None

    @property
    def moved_bytes(self) -> int:
        """In slower memory."""
        return self._optimizer.piecewise.state_bytes if self.moves else 0

    @property
    def moved(self) -> Moved:
        """By the optimizer's last step."""
        return self._optimizer.piecewise.moved if self.moves else Moved()

    def _needs(self, region: Region) -> Needs:
        device = region.captured.device
        gradients = sum(parameter.nbytes for group in self._given.param_groups
                        for parameter in group["params"] if parameter.requires_grad)
        account = self._account
        others = account.fixed_bytes - account.state_bytes + account.buffer_bytes
        room = account.budget_bytes - others - region.priced.resident_bytes - gradients
        with _disable_current_modes():
            return needs(self._given, _full(device), piece_bytes(room))

    def _refuse_small_limit(self, wanted: Needs, slower: Slower) -> None:
        if self._wanted:
            raise InputError(f"optimizer_state=True: the optimizer's state takes "
                             f"{format_bytes(wanted.moved_bytes)} of slower memory in one place, "
                             f"and {slower.limits}; allow more")

    def _set(self, wanted: Needs | None, regions: Iterable[Region], slower: Slower) -> None:
        """``wanted``: None where it stays in memory."""
        self._moving = wanted
        slower.reserve(0 if wanted is None else wanted.moved_bytes)
        self._count(wanted, regions)

    def _count(self, wanted: Needs | None, regions: Iterable[Region]) -> None:
        if wanted is None:
            self._account.keep_state()
        else:
            self._account.move_state(wanted.kept_bytes, wanted.step_bytes)
        for region in regions:
            region.leave_afterwards(self._account.afterwards)


def _cost(wanted: Needs, region: Region, slower: Slower) -> float:
    """Of moving the state, in the unit of the graph's costs."""
    return as_cost(slower.seconds(wanted.moved_bytes), region.priced.graph)


def _if_any(planned: Callable[[], Plan]) -> Plan | None:
    try:
        return planned()
    except InfeasibleError:
        return None


def _full(device: str) -> torch.device:
    """With its number."""
    return torch.empty((), device=device).device
