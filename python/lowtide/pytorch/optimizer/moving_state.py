"""The ``state`` of an optimizer, of which a part lies in slower memory."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterator, MutableMapping

import torch


class MovingState(MutableMapping):
    """By parameter, as ``torch.optim.Optimizer.state`` is, and as a defaultdict of dicts.

    What is asked for comes back to memory and counts from then on, until the optimizer's next step
    sends it away again. A copy and a pickle are a plain defaultdict with all of the state.

    ``owner``: what sends state away. ``read``: gives a copy of what is away of a parameter;
    ``away_bytes``: the bytes of what is away of several.
    """

    def __init__(self, owner: object, read: Callable[[torch.Tensor], dict],
                 away_bytes: Callable[[list[torch.Tensor]], int]):
        self.owner = owner
        self._read, self._away_bytes = read, away_bytes
        self._entries: dict[object, dict | None] = {}  # None: it is away

    def held(self, key) -> dict | None:
        """What is in memory."""
        return self._entries.get(key)

    def is_away(self, key) -> bool:
        return key in self._entries and self._entries[key] is None

    def away(self) -> list:
        return [key for key, value in self._entries.items() if value is None]

    @property
    def nbytes(self) -> int:
        """Of all tensors, wherever they are."""
        held = [value for value in self._entries.values() if value is not None]
        return self._away_bytes(self.away()) + sum(
            tensor.nbytes for value in held for tensor in value.values()
            if isinstance(tensor, torch.Tensor))

    def copied(self, key) -> dict:
        """What is away, without bringing it back; or what is in memory."""
        value = self._entries[key]
        return self._read(key) if value is None else value

    def send_away(self, key) -> None:
        """Forgets what is in memory: slower memory has the same."""
        self._entries[key] = None

    def __getitem__(self, key) -> dict:
        value = self._entries.setdefault(key, {})
        if value is None:
            value = self._entries[key] = self._read(key)
        return value

    def __setitem__(self, key, value) -> None:
        self._entries[key] = value

    def __delitem__(self, key) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key) -> bool:
        return key in self._entries

    # As __getitem__ makes what is not there, these ask first.

    def get(self, key, default=None):
        return self[key] if key in self else default

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key, *default):
        if key not in self:
            return {}.pop(key, *default)
        value = self[key]
        del self[key]
        return value

    def _all_copied(self) -> Iterator[tuple[object, dict]]:
        for key in self._entries:
            yield key, self.copied(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} parameters, {len(self.away())} of them away)"

    def __copy__(self):
        return collections.defaultdict(dict, self._all_copied())

    copy = __copy__

    def __deepcopy__(self, memo):
        copied = memo[id(self)] = collections.defaultdict(dict)
        for key, value in self._entries.items():
            copied[copy.deepcopy(key, memo)] = (self._read(key) if value is None
                                                else copy.deepcopy(value, memo))
        return copied

    def __reduce_ex__(self, protocol):
        return collections.defaultdict, (dict,), None, None, self._all_copied()
