"""The slower memory of one model: where it is, how fast, and what may lie there."""

from __future__ import annotations

import json
import os
import pathlib
import weakref

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
        self.speed: _core.Speed = offload.speed or _measured(self._place, _key(offload, device),
                                                             settings)
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

    def store(self, wanted_bytes: int):
        """Room for tensors that nothing else uses. Raises Error where there is not enough."""
        self._require_within_limit(wanted_bytes)
        store = self._place.open(wanted_bytes)
        self._taken[store] = wanted_bytes
        return store

    def seconds(self, moved_bytes: int) -> float:
        """That so many bytes take to come here and to go back, at the same time where the lanes do
        not share their way."""
        (_, out), (_, back), shared = self.speed
        each = [moved_bytes / rate if rate else 0.0 for rate in (out, back)]
        return sum(each) if shared else max(each)

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


def _key(offload, device: str) -> str:
    """What the speed depends on: the device, or the disk of the folder."""
    if offload.is_host:
        return f"host of {_runtime.profile_path(device).stem}"
    return _disk_of(offload.folder)


def _disk_of(folder: str) -> str:
    """The file system of a folder, by the table of mounts: a number of it changes with each
    start."""
    number = os.stat(folder).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    try:
        mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        mounts = []
    for line in mounts:
        fields = line.split()
        if fields[2] == device and "-" in fields:
            kind, source = fields[fields.index("-") + 1:][:2]
            return f"{kind} {source} at {fields[4]}"
    return f"device {device}"


def _measured(place, key: str, settings: Settings) -> _core.Speed:
    """What is known from an earlier run, or measured now."""
    file = _runtime.profile_path().parent / "slower-memory.json"
    known = _read(file)
    may_use = settings.keeps_plans and settings.cache != "refresh"
    speed = _speed_of(known.get(key)) if may_use else None
    if speed is None:
        settings.say(f"measuring {place.name}")
        with settings.progress(f"measuring {place.name}") as progress:
            speed = interruptible(place.measured, _runtime)
            progress.outcome = _core.describe_speed(speed)
        if settings.keeps_plans:
            _keep(file, known | {key: speed})
    settings.say(f"{place.name}: {_core.describe_speed(speed)}")
    return speed


def _read(file: pathlib.Path) -> dict:
    try:
        known = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _speed_of(known) -> _core.Speed | None:
    """Of what a file had; None where that is no speed."""
    try:
        (out_latency, out_rate), (in_latency, in_rate), shared = known
        numbers = [float(number) for number in (out_latency, out_rate, in_latency, in_rate)]
    except (TypeError, ValueError):
        return None
    if not all(0 <= number < float("inf") for number in numbers):
        return None
    return (numbers[0], numbers[1]), (numbers[2], numbers[3]), bool(shared)


def _keep(file: pathlib.Path, known: dict) -> None:
    """As a whole or not at all. A folder that cannot be written does no harm."""
    part = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(known, indent=1))
        part.replace(file)
    except OSError:
        return
