"""Signs of life of one rank, as another one sees them over time."""

from __future__ import annotations

import dataclasses

from .process_identity import GONE
from .rank_board import Beat


@dataclasses.dataclass(frozen=True)
class Suspicion:
    """``kind``: "gone", "silent" or "behind", for so many seconds."""

    kind: str
    seconds: float


class PeerHistory:
    """Times are the observer's own, so clocks of machines need not agree."""

    def __init__(self, beat: Beat, now: float):
        self._beat, self._beaten_at, self._level_at = beat, now, now

    def suspicion(self, beat: Beat, own_calls: int, state: str | None, now: float, *,
                  silence: float, waiting: float) -> Suspicion | None:
        """Of the newest ``beat`` and the ``state`` of the process. ``silence``: seconds without a
        beat that are too many. ``waiting``: seconds that are too many in which the rank begins no
        collective while the observer, with ``own_calls``, is ahead."""
        if beat.count != self._beat.count:
            self._beaten_at = now
        if beat.calls != self._beat.calls or beat.calls >= own_calls:
            self._level_at = now
        self._beat = beat
        if not beat.has_left and state == GONE:
            return Suspicion("gone", 0.0)
        if not beat.has_left and now - self._beaten_at > silence:
            return Suspicion("silent", now - self._beaten_at)
        if now - self._level_at > waiting:
            return Suspicion("behind", now - self._level_at)
        return None
