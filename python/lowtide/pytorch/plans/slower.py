"""The slower memory of one model: where it is, how fast, and what may lie there."""

from __future__ import annotations

import weakref
from collections.abc import Collection

import torch

from ... import Graph, InputError, Plan, _core, _runtime, format_bytes
from ...interruptible import interruptible
from ..budget.settings import Settings


class Slower:
    """Slower memory for the graphs of a model on one device.

    ``speed``: of copies, as ``_core.Speed`` has it. Raises InputError where the device's values
    cannot move there.
    """

    def __init__(self, settings: Settings, device: str):
        offload = settings.offload
        _require_other_memory(offload, device)
        self._limit, self._reserved = settings.offload_budget, 0
        self._place = (_runtime.SlowerMemory.host(device) if offload.is_host
                       else _runtime.SlowerMemory.disk(offload.folder))
        self.speed: _core.Speed = offload.speed or _speed(self._place, settings)
        self._taken: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @property
    def limit(self) -> int | None:
        """Bytes of values that may lie here."""
        return None if self._limit is None else max(1, self._limit - self._reserved)

    def reserve(self, state_bytes: int) -> None:
        """So many bytes of the limit are for the state of the optimizer."""
        self._reserved = state_bytes

    @property
    def buffer_bytes(self) -> int:
        """Of the device's memory, for copies."""
        return self._place.buffer_bytes

    def executor(self, graph: Graph, plan: Plan, device: str):
        """One that runs the plan, with its room in slower memory. Raises Error where there is not
        enough."""
        self._require_within_limit(plan.slower_bytes)
        executor = _runtime.Executor(graph, plan, device, slower=self._place)
        self._taken[executor] = plan.slower_bytes
        return executor

    def store(self, wanted_bytes: int, instead_of: Collection = ()):
        """Room for tensors that nothing else uses. Raises Error where there is not enough.

        ``instead_of``: stores that are given back when their content is here, and that the limit
        does not count for that moment.
        """
        self._require_within_limit(wanted_bytes - sum(self._taken.get(store, 0)
                                                      for store in instead_of))
        store = self._place.open(wanted_bytes)
        self._taken[store] = wanted_bytes
        return store

    def seconds(self, moved_bytes: int) -> float:
        """That so many bytes take to come here and to go back, at the same time where the lanes do
        not share their way."""
        _, _, shared = self.speed
        each = self._each_way(moved_bytes)
        return sum(each) if shared else max(each)

    def seconds_apart(self, moved_bytes: int) -> float:
        """The same where they go back later."""
        return sum(self._each_way(moved_bytes))

    def _each_way(self, moved_bytes: int) -> list[float]:
        (_, out), (_, back), _ = self.speed
        return [moved_bytes / rate if rate else 0.0 for rate in (out, back)]

    def has_room(self, wanted_bytes: int) -> bool:
        """Whether the limit allows so many bytes, if nothing else lies here."""
        return self._limit is None or wanted_bytes <= self._limit

    def _require_within_limit(self, wanted_bytes: int) -> None:
        taken = sum(self._taken.values())
        if self._limit is None or not wanted_bytes or taken + wanted_bytes <= self._limit:
            return
        raise InputError(
            f"offload_budget={format_bytes(self._limit)} is too small for all of a step together: "
            f"{format_bytes(taken)} of {self._place.name} are taken, and "
            f"{format_bytes(wanted_bytes)} more are needed; allow more")


def _require_other_memory(offload, device: str) -> None:
    """Raises InputError where nothing of the device's can move there, or is not known to."""
    on_cpu = torch.device(device).type == "cpu"
    if offload.is_host and on_cpu:
        raise InputError("the model is on the CPU, whose memory is the host's already, so that "
                         "offload=\"host\" would gain nothing: name a folder on a disk, such as "
                         "offload=\"/tmp\", or move the model to a device")
    if not offload.is_host and not on_cpu:
        raise InputError(f"the model is on {device}, whose values move to the host's memory alone "
                         f"so far, and not to {offload.folder}: give offload=\"host\"")


def _speed(place, settings: Settings) -> _core.Speed:
    """What is known from an earlier run, or measured now."""
    may_use = settings.keeps_plans and settings.cache != "refresh"
    speed = place.known_speed() if may_use else None
    if speed is None:
        settings.say(f"measuring {place.name}")
        with settings.progress(f"measuring {place.name}") as progress:
            speed = interruptible(lambda: place.measured(keep=settings.keeps_plans), _runtime)
            progress.outcome = _core.describe_speed(speed)
    settings.say(f"{place.name}: {_core.describe_speed(speed)}")
    return speed
