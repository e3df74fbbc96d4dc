"""How fast slower memory is to several ranks: as to the slowest of them."""

from __future__ import annotations

from collections.abc import Callable

from ... import _core
from ..shards.group import Group

_NANOSECONDS = 1e9

#: By place, as it was measured.
_measured: dict[str, _core.Speed] = {}


def measured_once(place: str, measure: Callable[[], _core.Speed]) -> _core.Speed:
    """In this process, so that predictions of one program can be compared."""
    if place not in _measured:
        _measured[place] = measure()
    return _measured[place]


def speed_of_ranks(group: Group, find: Callable[[], _core.Speed]) -> _core.Speed:
    """The least of what ``find`` returns on the ranks: they may have disks of their own, and have
    one plan. Where it raises on a rank, all raise."""
    (out_latency, out_rate), (in_latency, in_rate), shared = group.together(
        "measure slower memory", find)
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
