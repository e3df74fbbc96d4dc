"""How fast slower memory is to several ranks: as to the slowest of them."""

from __future__ import annotations

from collections.abc import Callable

from ... import _core
from ..shards.group import Group

_NANOSECONDS = 1e9

#: By ranks and place: what was agreed on.
_agreed: dict[tuple[tuple[int, ...], str], _core.Speed] = {}


def speed_of_ranks(group: Group, place: str, find: Callable[[], _core.Speed]) -> _core.Speed:
    """What ``find`` returns on the rank where each copy takes the longest: ranks may have disks of
    their own, and one plan. It is asked once for the same ranks and the same place, so that
    predictions of one program can be compared. Where it raises on a rank, all ranks raise."""
    key = group.ranks, place
    known = _agreed.get(key)
    speed = group.together("measure slower memory", lambda: known or find())
    _agreed[key] = _slowest(group, speed)
    return _agreed[key]


def _slowest(group: Group, speed: _core.Speed) -> _core.Speed:
    (out_latency, out_rate), (in_latency, in_rate), shared = speed
    found = group.meet("compare slower memory", "",
                       *(round(_NANOSECONDS * seconds) for seconds in (out_latency, in_latency)),
                       round(out_rate), round(in_rate))
    latencies_out, latencies_in, rates_out, rates_in = zip(*found)
    [is_shared] = group.largest("compare lanes", "", int(shared))
    return ((max(latencies_out) / _NANOSECONDS, _least_rate(rates_out)),
            (max(latencies_in) / _NANOSECONDS, _least_rate(rates_in)), bool(is_shared))


def _least_rate(rates: tuple[int, ...]) -> float:
    """Of bytes per second, where 0 stands for no limit."""
    return float(min((rate for rate in rates if rate), default=0))
