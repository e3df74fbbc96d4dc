"""What one session sees of the framework's memory of its device, apart from other sessions."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from ... import _runtime
from .passes_of_graph import ONE_PASS_AT_A_TIME


class GradientsBesideBlocks(Protocol):
    """Of tensors by their identities."""

    def tracks(self, leaf: int) -> bool:
        """Whether the gradient of this tensor may come from the session."""

    def beside(self) -> dict[int, int]:
        """The bytes of gradients that lie in no block of the session."""


@dataclasses.dataclass(frozen=True)
class _Held:
    """By one session."""

    block_bytes: int = 0
    gradients: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def bytes_beside(self, gradients: GradientsBesideBlocks) -> int:
        """Without gradients that may be those of another session, as of a parameter of both."""
        return self.block_bytes + sum(size for leaf, size in self.gradients.items()
                                      if not gradients.tracks(leaf))


class TakenBytes:
    """What is taken of the memory of a device, in bytes, and the most of it since ``reset()``.

    Steps of several sessions may lie within each other, as that of a discriminator within the step
    of its generator. Each session counts its own blocks and gradients, and within its own passes
    all that they take. So neither counts for those beside it; what else is left of a pass does,
    such as results.

    ``block_bytes``: gives what the blocks of this session hold, which changes within ``own()``.
    """

    _all: weakref.WeakSet[TakenBytes] = weakref.WeakSet()
    #: Whose pass runs, or whose graph is captured; nobody else counts what is taken meanwhile.
    _at_work: weakref.ref[TakenBytes] | None = None

    def __init__(self, block_bytes: Callable[[], int], gradients: GradientsBesideBlocks):
        self.device = "cpu"
        self._block_bytes, self._gradients = block_bytes, gradients
        self._held = _Held()
        #: The one that runs forward passes.
        self._thread = threading.get_ident()
        #: By the identities of other sessions, what they held when the peaks of the device were
        #: reset last, also of those that have ended since.
        self._beside: dict[int, int] = {}
        #: Of the time before they were reset for the sake of another session.
        self._peak = self._unserved_peak = 0
        TakenBytes._all.add(self)

    @property
    def now(self) -> int:
        held = self._beside_now(_held_by(self._others()))
        return _runtime.taken_bytes(self.device) - sum(held.values())

    @property
    def peak(self) -> int:
        self._keep_peaks(_held_by(self._others()))
        return self._peak

    @property
    def unserved_now(self) -> int:
        """What the caller's own code holds."""
        return _runtime.unserved_bytes(self.device)

    @property
    def unserved_peak(self) -> int:
        self._keep_peaks(_held_by(self._others()))
        return self._unserved_peak

    def reset(self) -> None:
        """Peaks are those of the time from now on."""
        self._keep_peaks_of_others()
        self._peak = self._unserved_peak = 0
        self._reset_device()

    def capture(self) -> None:
        """Until the next pass of any session is over, what is taken is this session's alone."""
        self.reset()
        TakenBytes._at_work = weakref.ref(self)

    def trains_here(self) -> None:
        """This thread is about to run a forward pass."""
        self._thread = threading.get_ident()

    @contextlib.contextmanager
    def own(self) -> Iterator[None]:
        """While a pass of this session runs, or its blocks are given back."""
        self._keep_peaks_of_others()
        TakenBytes._at_work = weakref.ref(self)
        try:
            yield
        finally:
            if others := self._others():
                self._keep_peaks(_held_by(others))
                self._reset_device()
            TakenBytes._at_work = None

    def _keep_peaks_of_others(self) -> None:
        if others := self._others():
            held = _held_by([self, *others])
            for other in others:
                other._keep_peaks(held)

    def _keep_peaks(self, held: Mapping[TakenBytes, _Held]) -> None:
        """Before the peaks of the device are reset. ``held``: now, by others."""
        at_work = TakenBytes._at_work and TakenBytes._at_work()
        if at_work is None or at_work is self:
            # Gradients that a pass made were not in their places when it ended.
            before, now = self._beside, self._beside_now(held)
            beside = sum(max(before.get(other, 0), now.get(other, 0)) for other in before | now)
            self._peak = max(self._peak, _runtime.taken_peak_bytes(self.device) - beside)
            self._unserved_peak = max(self._unserved_peak,
                                      _runtime.unserved_peak_bytes(self.device))

    def _reset_device(self) -> None:
        _runtime.reset_peaks(self.device)
        held = _held_by([self, *others]) if (others := self._others()) else {}
        for session in [self, *others]:
            session._beside = session._beside_now(held)

    def _beside_now(self, held: Mapping[TakenBytes, _Held]) -> dict[int, int]:
        return {id(other): of_other.bytes_beside(self._gradients)
                for other, of_other in held.items() if other is not self}

    def _others(self) -> list[TakenBytes]:
        return [other for other in list(TakenBytes._all)
                if other is not self and other.device == self.device]


def _held_by(sessions: Sequence[TakenBytes]) -> dict[TakenBytes, _Held]:
    """As they are now; of what another thread trains, as it was when that looked last: gradients
    may be read by the thread alone that makes and drops them."""
    if ONE_PASS_AT_A_TIME.acquire(blocking=False):
        try:
            for one in sessions:
                if one._thread == threading.get_ident():
                    one._held = _Held(one._block_bytes(), one._gradients.beside())
        finally:
            ONE_PASS_AT_A_TIME.release()
    return {one: one._held for one in sessions}
