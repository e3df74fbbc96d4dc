"""The slower memory of one model: where it is, how fast, and what may lie there."""

from __future__ import annotations

import weakref

import torch

from ... import Graph, InputError, Plan, _core, _runtime, format_bytes
from ...interruptible import interruptible
from ..budget.settings import Settings


class Slower:
    """Slower memory for the graphs of a model on one device.

    ``speed``: of copies, as ``_core.Speed`` has it. ``limit``: bytes that may lie there at most;
    None for what is free. Raises InputError where the device's values cannot move there.
    """

    def __init__(self, settings: Settings, device: str):
        offload = settings.offload
        _require_other_memory(offload, device)
        self.limit = settings.offload_budget
        self._place = (_runtime.SlowerMemory.host(device) if offload.is_host
                       else _runtime.SlowerMemory.disk(offload.folder))
        self.speed: _core.Speed = offload.speed or _speed(self._place, settings)
        self._executors: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @property
    def buffer_bytes(self) -> int:
        """Of the device's memory, for copies."""
        return self._place.buffer_bytes

    def executor(self, graph: Graph, plan: Plan, device: str):
        """One that runs the plan, with its room in slower memory. Raises Error where there is not
        enough."""
        self._require_within_limit(plan.slower_bytes)
        executor = _runtime.Executor(graph, plan, device, slower=self._place)
        self._executors[executor] = plan.slower_bytes
        return executor

    def _require_within_limit(self, wanted_bytes: int) -> None:
        taken = sum(self._executors.values())
        if self.limit is None or not wanted_bytes or taken + wanted_bytes <= self.limit:
            return
        raise InputError(
            f"offload_budget={format_bytes(self.limit)} is too small for the graphs of a step "
            f"together: they have {format_bytes(taken)} of {self._place.name}, and another one "
            f"needs {format_bytes(wanted_bytes)}; allow more")


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
