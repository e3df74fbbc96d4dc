"""The slower memory of one model: where it is, how fast, and what may lie there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Sequence

import torch

from ... import Graph, InputError, Plan, _core, _runtime, format_bytes
from ...interruptible import interruptible
from ..budget.memory import Moved
from ..budget.offload import HOST, Offload
from ..budget.settings import Settings
from .agreed_speed import measured_once, speed_of_ranks
from .cost_units import as_seconds
from .pace import Pace


class Slower:
    """Slower memory for the graphs of a model on one device, in one place or in two. Each of
    several ranks has its own, as fast as the slowest of them. Raises InputError where the device's
    values cannot move there."""

    def __init__(self, settings: Settings, device: str):
        offload, limit = settings.offload, settings.offload_budget
        _require_other_memory(offload, device)
        self._places = [_Place(offload, device, limit, "offload_budget", settings)]
        if offload.second is not None:
            self._places.append(
                _Place(offload.second, device, offload.disk_limit, "disk_budget", settings))

    @property
    def places(self) -> list[tuple[_core.Speed, int | None]]:
        """How fast each is, and how many bytes of values may lie there, None for no limit."""
        return [(place.speed, place.limit) for place in self._places]

    def note_pass(self, graph: Graph, plan: Plan, moved: Sequence[Moved]) -> None:
        """A pass by the plan has run. ``moved``: what it did, by place."""
        copying = _core.times_of_copies(graph, plan)
        away = _core.bytes_of_residents_away(graph, plan)
        for place, done, planned, apart in zip(self._places, moved, copying, away):
            place.note_pass(done, as_seconds(planned, graph), apart)

    def end_step(self, step_seconds: Callable[[], float]) -> dict[str, str]:
        """By name, what is to be said of places whose copies are slower or faster from now on than
        they were taken to be. ``step_seconds``: gives what the step was planned to take."""
        return {place.memory.name: place.describe_pace() for place in self._places
                if place.end_step(step_seconds)}

    @property
    def pace(self) -> tuple[float, ...]:
        """By place, how many times as long copies take as they were measured to."""
        return tuple(place.pace.slowdown for place in self._places)

    def retimed(self, graph: Graph, plan: Plan) -> Plan:
        """The plan with the time that it takes where copies are as fast as they are now."""
        first, *second = self._places
        return _core.with_speeds(graph, plan, first.speed, second[0].speed if second else None)

    def reserve(self, state_bytes: int) -> None:
        """So many bytes of the limit are for the state of the optimizer."""
        chosen = self._place_for(state_bytes)
        for place in self._places:
            place.reserved_bytes = state_bytes if place is chosen else 0

    @property
    def buffer_bytes(self) -> int:
        """Of the device's memory, for copies."""
        return sum(place.memory.buffer_bytes for place in self._places)

    def executor(self, graph: Graph, plan: Plan, device: str):
        """One that runs the plan, with its room in slower memory. Raises Error where there is not
        enough."""
        wanted = dict(zip(self._places, plan.slower_places))
        for place, wanted_bytes in wanted.items():
            place.require_within_limit(wanted_bytes)
        executor = _runtime.Executor(graph, plan, device, False,
                                     *(place.memory for place in self._places))
        for place, wanted_bytes in wanted.items():
            place.taken[executor] = wanted_bytes
        return executor

    def store(self, wanted_bytes: int, instead_of: Collection = ()):
        """Room for tensors that nothing else uses. Raises Error where there is not enough.

        ``instead_of``: stores that are given back when their content is here, and that the limit
        does not count for that moment.
        """
        place = next((place for place in self._places
                      if place.has_room_left(wanted_bytes, instead_of)),
                     self._place_for(wanted_bytes))
        place.require_within_limit(wanted_bytes, instead_of)
        store = place.memory.open(wanted_bytes)
        place.taken[store] = wanted_bytes
        return store

    def seconds(self, moved_bytes: int) -> float:
        """That so many bytes of the optimizer's state take to come here and to go back, at the same
        time where the lanes do not share their way."""
        return self._place_for(moved_bytes).seconds(moved_bytes)

    def seconds_apart(self, graph: Graph, plan: Plan) -> float:
        """That the residents take to go away before a pass of the plan and to come back after
        it."""
        away = _core.bytes_of_residents_away(graph, plan)
        return sum(place.seconds_apart(moved_bytes)
                   for place, moved_bytes in zip(self._places, away))

    @property
    def limits(self) -> str:
        """What the options allow, for messages."""
        return " and ".join(place.allowed for place in self._places)

    def has_room(self, wanted_bytes: int) -> bool:
        """Whether the limit allows so many bytes, if nothing else lies here."""
        return self._place_for(wanted_bytes).has_room(wanted_bytes)

    def _place_for(self, wanted_bytes: int) -> _Place:
        """Of the state of the optimizer, which lies in one: in the first one that may have it."""
        return next((place for place in self._places if place.has_room(wanted_bytes)),
                    self._places[-1])


class _Place:
    """The host's memory, or a folder on a disk. ``limit``: bytes that may lie there, as the option
    of that name says."""

    def __init__(self, offload: Offload, device: str, limit: int | None, option: str,
                 settings: Settings):
        self.memory = (_runtime.SlowerMemory.host(device) if offload.is_host
                       else _runtime.SlowerMemory.disk(offload.folder, device))
        self.pace = Pace()
        group = settings.group
        #: Whether it stays, however long copies take: one that a person gives is theirs, and ranks
        #: have seen unlike times.
        self._stays = offload.speed is not None or group is not None

        def measured() -> _core.Speed:
            return _speed(self.memory, settings)

        self._speed: _core.Speed = (
            offload.speed or measured() if group is None else speed_of_ranks(
                group, lambda: offload.speed or measured_once(self.memory.name, measured)))
        self.taken: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self.reserved_bytes = 0
        self._limit, self._option = limit, option

    @property
    def speed(self) -> _core.Speed:
        """As was measured, or as it has turned out to be since."""
        out, back, shared = self._speed
        return self._slowed(out), self._slowed(back), shared

    def _slowed(self, lane: tuple[float, float]) -> tuple[float, float]:
        latency, rate = lane
        return latency * self.pace.slowdown, rate / self.pace.slowdown

    def note_pass(self, moved: Moved, planned_seconds: float, apart_bytes: int) -> None:
        """``apart_bytes``: of parameters that left before the pass and came back after it."""
        _, _, shared = self.speed
        planned = planned_seconds + self.seconds_apart(apart_bytes)
        # Copies in both directions at once each take the time of both where they share their way.
        self.pace.note(moved, 2 * planned if shared else planned)

    def end_step(self, step_seconds: Callable[[], float]) -> bool:
        """Whether the speed is another one now."""
        return not self._stays and self.pace.end_step(step_seconds())

    def describe_pace(self) -> str:
        return (f"copies to and from {self.memory.name} take {self.pace.slowdown:.1f} times as "
                f"long as was measured")

    @property
    def limit(self) -> int | None:
        return None if self._limit is None else max(1, self._limit - self.reserved_bytes)

    @property
    def allowed(self) -> str:
        amount = "any number of bytes" if self._limit is None else format_bytes(self._limit)
        return f"{self._option} allows {amount}"

    def has_room(self, wanted_bytes: int) -> bool:
        return self._limit is None or wanted_bytes <= self._limit

    def has_room_left(self, wanted_bytes: int, instead_of: Collection = ()) -> bool:
        """Whether the limit allows so many bytes beside what lies there, but ``instead_of``."""
        return self.has_room(wanted_bytes + self._taken_beside(instead_of))

    def require_within_limit(self, wanted_bytes: int, instead_of: Collection = ()) -> None:
        if (self._limit is None or not wanted_bytes
                or self.has_room_left(wanted_bytes, instead_of)):
            return
        raise InputError(
            f"{self._option}={format_bytes(self._limit)} is too small for all of a step together: "
            f"{format_bytes(self._taken_beside(instead_of))} of {self.memory.name} are taken, and "
            f"{format_bytes(wanted_bytes)} more are needed; allow more")

    def _taken_beside(self, instead_of: Collection) -> int:
        return sum(self.taken.values()) - sum(self.taken.get(store, 0) for store in instead_of)

    def seconds(self, moved_bytes: int) -> float:
        _, _, shared = self.speed
        each = self._each_way(moved_bytes)
        return sum(each) if shared else max(each)

    def seconds_apart(self, moved_bytes: int) -> float:
        return sum(self._each_way(moved_bytes))

    def _each_way(self, moved_bytes: int) -> list[float]:
        (_, out), (_, back), _ = self.speed
        return [moved_bytes / rate if rate else 0.0 for rate in (out, back)]


def _require_other_memory(offload: Offload, device: str) -> None:
    """Raises InputError where the device's memory is the host's, and so no other."""
    if offload.is_host and torch.device(device).type == "cpu":
        raise InputError(f"the model is on the CPU, whose memory is the host's already, so that "
                         f"offload=\"{HOST}\" would gain nothing: name a folder on a disk, such as "
                         f"offload=\"/tmp\", or move the model to a device")


def _speed(memory, settings: Settings) -> _core.Speed:
    """What is known from an earlier run, or measured now."""
    may_use = settings.keeps_plans and settings.cache != "refresh"
    speed = memory.known_speed() if may_use else None
    if speed is None:
        settings.say(f"measuring {memory.name}")
        with settings.progress(f"measuring {memory.name}") as progress:
            speed = interruptible(lambda: memory.measured(keep=settings.keeps_plans), _runtime)
            progress.outcome = _core.describe_speed(speed)
    settings.say(f"{memory.name}: {_core.describe_speed(speed)}")
    return speed
