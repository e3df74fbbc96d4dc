"""What ranks tell each other through the store of their process group, beside all collectives."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence

import torch.distributed as dist

from .process_identity import ProcessIdentity


@dataclasses.dataclass(frozen=True)
class Failure:
    """``rank``: of the cause; None where that is not known."""

    rank: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class Beat:
    """A sign of life. ``count``: of beats so far. ``calls``: of collectives that were begun.
    ``has_left``: the rank is through with its training."""

    count: int
    calls: int
    has_left: bool = False


class RankBoard:
    """A failure is told once, and the first is the one that all ranks read."""

    def __init__(self, store: dist.Store, name: str, timeout: float):
        """``timeout``: seconds after which a store that does not answer raises RuntimeError."""
        # A connection of its own: others may wait in the store for minutes.
        self._store = dist.PrefixStore(name, store).clone()
        self._store.set_timeout(datetime.timedelta(seconds=timeout))

    def announce(self, rank: int, identity: ProcessIdentity) -> None:
        self._store.set(f"process/{rank}", identity.to_json())

    def announced(self, rank: int) -> ProcessIdentity | None:
        key = f"process/{rank}"
        if not self._store.check([key]):
            return None
        return ProcessIdentity.parse(self._store.get(key).decode())

    def beat(self, rank: int, beat: Beat) -> None:
        self._store.set(f"beat/{rank}", json.dumps(dataclasses.astuple(beat)))

    def beats(self, ranks: Sequence[int]) -> list[Beat]:
        """Of ranks that have beaten."""
        texts = self._store.multi_get([f"beat/{rank}" for rank in ranks])
        return [Beat(*json.loads(text)) for text in texts]

    def report(self, failure: Failure) -> Failure:
        """The failure that holds: this one, unless another was reported before."""
        told = self._store.compare_set("failure", "", json.dumps(dataclasses.astuple(failure)))
        return Failure(*json.loads(told))

    def failure(self) -> Failure | None:
        if not self._store.check(["failure"]):
            return None
        return Failure(*json.loads(self._store.get("failure")))
