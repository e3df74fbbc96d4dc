"""Predicted times of collectives, and the file that keeps them."""

from __future__ import annotations

import dataclasses
import json
import math
import numbers
import os
import pathlib
from collections.abc import Mapping, Sequence

from ... import InputError
from ...arguments import checked_count
from .link_fit import Link, Sample, fitted_link

COLLECTIVES = ("allreduce", "reduce_scatter", "allgather", "broadcast")
_FORMAT, _VERSION = "lowtide-collectives", 1


@dataclasses.dataclass(frozen=True)
class CommunicationCosts:
    """Times of collectives of ``ranks`` ranks: latency + traffic / bandwidth, where the traffic is
    2(p-1)/p of the bytes for an allreduce of p ranks, and (p-1)/p for the others. That is the least
    that any algorithm sends on a rank's link (Patarasuk and Yuan, 2009).

    ``link``: one for all collectives. ``links``: by collective, where they were measured.
    """

    ranks: int
    backend: str
    link: Link
    links: Mapping[str, Link]

    def seconds(self, collective: str, bytes: int) -> float:
        """Of the whole tensor's ``bytes``: the argument of allreduce, reduce_scatter and broadcast,
        the result of allgather. Raises InputError for another name."""
        link = self.links.get(_checked_collective(collective), self.link)
        sent = traffic(collective, self.ranks, checked_count("bytes", bytes, 0))
        return 0.0 if self.ranks == 1 else link.seconds(sent)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON: seconds, and bytes per second (null where no time for bytes was seen)."""
        document = {"format": _FORMAT, "version": _VERSION, "ranks": self.ranks,
                    "backend": self.backend, **_link_json(self.link),
                    "collectives": {name: _link_json(link) for name, link in self.links.items()}}
        pathlib.Path(path).write_text(json.dumps(document, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CommunicationCosts:
        """Raises InputError, which names the file and the field, for a file that ``save`` does not
        write."""
        try:
            document = json.loads(pathlib.Path(path).read_text())
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be read as costs of collectives: {error}") from error
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise InputError(f"{path} is not a {_FORMAT} document, such as comm.measure().save() "
                             f"writes")
        if document.get("version") != _VERSION:
            raise InputError(f"{path} has the version {document.get('version')!r} of its format, "
                             f"and this Lowtide reads {_VERSION}: measure again")
        by_name = document.get("collectives", {})
        if not isinstance(by_name, dict) or not set(by_name) <= set(COLLECTIVES):
            raise InputError(f"{path}: collectives must be an object with names of "
                             f"{', '.join(COLLECTIVES)}")
        ranks, backend = document.get("ranks"), document.get("backend")
        if not isinstance(backend, str):
            raise InputError(f"{path}: backend must be a text, not {backend!r}")
        links = {name: _link_of(link, f"{path}: collectives.{name}.")
                 for name, link in by_name.items()}
        return cls(checked_count(f"{path}: ranks", ranks, 1), backend,
                   _link_of(document, f"{path}: "), links)


def fitted_costs(ranks: int, backend: str,
                 times: Mapping[str, Sequence[tuple[int, float]]]) -> CommunicationCosts:
    """From measured pairs of bytes and seconds, by collective: two sizes or more, above 0."""
    samples = {name: [Sample(traffic(name, ranks, size), seconds) for size, seconds in pairs]
               for name, pairs in times.items()}
    links = {name: fitted_link(own) for name, own in samples.items()}
    together = [sample for own in samples.values() for sample in own]
    return CommunicationCosts(ranks, backend, fitted_link(together), links)


def traffic(collective: str, ranks: int, bytes: int) -> float:
    """The bytes that each rank sends of a tensor of so many bytes, in a ring."""
    return (2 if collective == "allreduce" else 1) * (ranks - 1) / ranks * bytes


def _checked_collective(collective: str) -> str:
    if collective not in COLLECTIVES:
        raise InputError(f"collective must be one of {', '.join(COLLECTIVES)}, not {collective!r}")
    return collective


def _link_json(link: Link) -> dict[str, float | None]:
    is_limited = math.isfinite(link.bandwidth)
    return {"latency": link.latency, "bandwidth": link.bandwidth if is_limited else None}


def _link_of(document: object, where: str) -> Link:
    fields = document if isinstance(document, dict) else {}
    latency, bandwidth = fields.get("latency"), fields.get("bandwidth", 0)
    if not _is_number(latency) or not 0 <= latency < math.inf:
        raise InputError(f"{where}latency must be seconds, 0 or more, not {latency!r}")
    if bandwidth is None:
        return Link(float(latency), math.inf)
    if not _is_number(bandwidth) or not 0 < bandwidth < math.inf:
        raise InputError(f"{where}bandwidth must be bytes per second, more than 0, or null, not "
                         f"{bandwidth!r}")
    return Link(float(latency), float(bandwidth))


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
