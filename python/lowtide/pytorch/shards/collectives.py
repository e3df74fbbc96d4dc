"""Collectives as ops: each starts in one op, and ends in another that waits for it.

In between, memory that a collective in flight reads or writes is in use: of ``pending``, the
result of the start, and of the inputs of both ops. A start and its wait have these among their
inputs and outputs, so that a plan which knows the lives of values keeps them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist

from .group import GROUPS, Group

GATHER_START, GATHER_WAIT = "lowtide::gather_start", "lowtide::gather_wait"
REDUCE_START, REDUCE_WAIT = "lowtide::reduce_start", "lowtide::reduce_wait"
SCATTER_START, SCATTER_WAIT = "lowtide::scatter_start", "lowtide::scatter_wait"

#: By the op that starts a collective, the one that waits for it.
WAITS = {GATHER_START: GATHER_WAIT, REDUCE_START: REDUCE_WAIT, SCATTER_START: SCATTER_WAIT}

_library = torch.library.Library("lowtide", "FRAGMENT")
_library.define("gather_start(Tensor[] shards, str group) -> Tensor")
_library.define("gather_wait(Tensor pending, Tensor[] shards) -> Tensor")
_library.define("reduce_start(Tensor[] gradients, str group) -> Tensor")
_library.define("reduce_wait(Tensor pending) -> Tensor")
_library.define("scatter_start(Tensor[] gradients, str group) -> Tensor")
_library.define("scatter_wait(Tensor pending, Tensor[] gradients, str group) -> Tensor")


class InFlight:
    """The collectives that were started and not waited for, by the address of their result."""

    def __init__(self):
        self._works: dict[int, list[dist.Work]] = {}
        self._tags = itertools.count(1)
        self._is_connected = True

    @contextlib.contextmanager
    def unconnected(self) -> Iterator[None]:
        """While it lasts, ops make their results and send nothing, as where they are measured."""
        self._is_connected = False
        try:
            yield
        finally:
            self._is_connected = True

    def start(self, pending: torch.Tensor, works: Sequence[dist.Work]) -> None:
        self._works[pending.data_ptr()] = list(works)

    def wait(self, pending: torch.Tensor) -> bool:
        """Returns when the collective is over that ``pending`` is the result of; whether there was
        one. Raises what the backend raises, such as for a rank that is gone."""
        works = self._works.pop(pending.data_ptr(), ())
        for work in works:
            work.wait()
        return bool(works)

    def abandon(self) -> None:
        """A pass has failed, and its memory is given back: waits for what is under way, whatever
        becomes of it."""
        while self._works:
            for work in self._works.popitem()[1]:
                with contextlib.suppress(RuntimeError):
                    work.wait()

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def next_tag(self) -> int:
        """Of a message between two ranks: the same on both, as they do the same in one order."""
        return next(self._tags) % (1 << 24)

    def __len__(self) -> int:
        return len(self._works)


IN_FLIGHT = InFlight()


@contextlib.contextmanager
def none_left_in_flight() -> Iterator[None]:
    """Around a pass: where it fails, the memory of collectives under way may be given back after
    it."""
    try:
        yield
    except BaseException:
        IN_FLIGHT.abandon()
        raise


# ---- All ranks get the whole of what each has a part of

def _elements(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _gather_start(shards: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """The rows of all ranks in a row, of one tensor after the other."""
    ranks = GROUPS[group]
    whole = shards[0].new_empty(ranks.size * _elements(shards))
    if IN_FLIGHT.is_connected:
        wholes = whole.split([ranks.size * shard.numel() for shard in shards])
        IN_FLIGHT.start(whole, [work for shard, part in zip(shards, wholes)
                                for work in _gather(ranks, shard.view(-1), part)])
    return whole


def _gather(group: Group, shard: torch.Tensor, whole: torch.Tensor) -> list[dist.Work]:
    """Gloo's own all-gather takes the result's bytes twice, on a thread of its own, and ten times
    as long as messages from rank to rank, which are received where they are to be."""
    if group.backend != "gloo":
        return [group.data._allgather_base(whole, shard)]
    parts = whole.chunk(group.size)
    works = _exchange(group, [shard] * group.size, parts)
    parts[group.rank].copy_(shard)
    return works


def _gather_wait(pending: torch.Tensor, shards: Sequence[torch.Tensor]) -> torch.Tensor:
    return _waited(pending)


# ---- All ranks get the mean of what each has

def _reduce_start(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """One gradient, which the result may be written over, or a bucket of several in a row, each
    with its elements as they lie in memory."""
    ranks = GROUPS[group]
    share = 1.0 / ranks.size if ranks.reduces else 1.0
    if len(gradients) == 1:
        bucket = torch.empty_like(gradients[0])
        torch.mul(gradients[0], share, out=bucket)
    else:
        bucket = gradients[0].new_empty(sum(gradient.numel() for gradient in gradients))
        first = 0
        for gradient in gradients:
            place = bucket.as_strided(gradient.shape, gradient.stride(), first)
            torch.mul(gradient, share, out=place)
            first += gradient.numel()
    if IN_FLIGHT.is_connected and ranks.reduces:
        IN_FLIGHT.start(bucket, [ranks.data.allreduce([_in_a_row(bucket)])])
    return bucket


def _in_a_row(tensor: torch.Tensor) -> torch.Tensor:
    """Backends want contiguous tensors; a sum by element does not ask where elements lie."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _reduce_wait(pending: torch.Tensor) -> torch.Tensor:
    return _waited(pending)


# ---- Each rank gets its part of the mean of what all have

def _scatter_start(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """``gradients``: contiguous, with rows that are a multiple of the number of ranks. With Gloo
    the result is what the other ranks have of this one's parts, and the wait adds up, in the order
    of ranks."""
    ranks = GROUPS[group]
    received = _received(gradients, group)
    if IN_FLIGHT.is_connected:
        places = _by_gradient(received, gradients, ranks)
        IN_FLIGHT.start(received, [work for gradient, place in zip(gradients, places)
                                   for work in _scatter(ranks, gradient.view(-1), place)])
    return received


def _scatter(group: Group, gradient: torch.Tensor, received: torch.Tensor) -> list[dist.Work]:
    if group.backend != "gloo":
        return [group.data._reduce_scatter_base(received, gradient)]
    return _exchange(group, gradient.chunk(group.size), _with_own(received, group, gradient))


def _received(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    ranks = GROUPS[group]
    parts = ranks.size - 1 if ranks.backend == "gloo" else 1
    return gradients[0].new_empty(parts * _elements(gradients) // ranks.size)


def _by_gradient(received: torch.Tensor, gradients: Sequence[torch.Tensor],
                 ranks: Group) -> Sequence[torch.Tensor]:
    parts = ranks.size - 1 if ranks.backend == "gloo" else 1
    return received.split([parts * gradient.numel() // ranks.size for gradient in gradients])


def _with_own(others: torch.Tensor, ranks: Group, gradient: torch.Tensor) -> list[torch.Tensor]:
    """By rank, what it has of this rank's part."""
    own, parts = gradient.chunk(ranks.size)[ranks.rank], others.chunk(ranks.size - 1)
    return [*parts[:ranks.rank], own, *parts[ranks.rank:]]


def _scatter_wait(pending: torch.Tensor, gradients: Sequence[torch.Tensor],
                  group: str) -> torch.Tensor:
    """This rank's rows of the mean, of one gradient after the other."""
    ranks = GROUPS[group]
    IN_FLIGHT.wait(pending)
    if ranks.backend != "gloo":
        return pending / ranks.size
    total = _own_parts(gradients, group)
    means = total.split([gradient.numel() // ranks.size for gradient in gradients])
    for mean, gradient, others in zip(means, gradients, _by_gradient(pending, gradients, ranks)):
        parts = _with_own(others, ranks, gradient.view(-1))
        torch.add(parts[0], parts[1], out=mean)
        for part in parts[2:]:
            mean.add_(part)
    return total.mul_(1.0 / ranks.size)


def _own_parts(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    return gradients[0].new_empty(_elements(gradients) // GROUPS[group].size)


def _exchange(group: Group, sent: Sequence[torch.Tensor],
              received: Sequence[torch.Tensor]) -> list[dist.Work]:
    """Sends each other rank its tensor, and receives one from it."""
    tag = IN_FLIGHT.next_tag()
    works = []
    for distance in range(1, group.size):
        to, source = (group.rank + distance) % group.size, (group.rank - distance) % group.size
        works.append(group.data.recv([received[source]], source, tag))
        works.append(group.data.send([sent[to]], to, tag))
    return works


def _waited(pending: torch.Tensor) -> torch.Tensor:
    """The same bytes once they are there. A plan lets the result lie where ``pending`` does, and
    then nothing is copied."""
    IN_FLIGHT.wait(pending)
    result = torch.empty_like(pending)
    if result.data_ptr() != pending.data_ptr():
        result.copy_(pending)
    return result


# ---- Registration

def _fake_gather_start(shards, group):
    return shards[0].new_empty(GROUPS[group].size * _elements(shards))


def _fake_reduce_start(gradients, group):
    if len(gradients) == 1:
        return torch.empty_like(gradients[0])
    return gradients[0].new_empty(sum(gradient.numel() for gradient in gradients))


def _register(name: str, run, fake) -> None:
    _library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"lowtide::{name}", fake, lib=_library)


_register("gather_start", _gather_start, _fake_gather_start)
_register("gather_wait", _gather_wait, lambda pending, shards: torch.empty_like(pending))
_register("reduce_start", _reduce_start, _fake_reduce_start)
_register("reduce_wait", _reduce_wait, torch.empty_like)
_register("scatter_start", _scatter_start, _received)
_register("scatter_wait", _scatter_wait,
          lambda pending, gradients, group: _own_parts(gradients, group))
