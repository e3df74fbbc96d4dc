"""Collectives as ops: each starts in one op, and ends in another that waits for it.

In between, the memory of ``pending`` is in use, the result of the start. What the start reads it
has copied; an exchange alone sends it from where it lies. The wait reads all that is in use, so a
plan that knows the lives of values keeps it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist

from ..ranks.errors import rank_errors_of_ops
from .group import GROUPS, Ranks

GATHER_START, GATHER_WAIT = "lowtide::gather_start", "lowtide::gather_wait"
REDUCE_START, REDUCE_WAIT = "lowtide::reduce_start", "lowtide::reduce_wait"
SCATTER_START, SCATTER_WAIT = "lowtide::scatter_start", "lowtide::scatter_wait"
EXCHANGE_START, EXCHANGE_WAIT = "lowtide::exchange_start", "lowtide::exchange_wait"
COALESCED_GATHER_START = "lowtide::coalesced_gather_start"
COALESCED_GATHER_WAIT = "lowtide::coalesced_gather_wait"
COALESCED_EXCHANGE_START = "lowtide::coalesced_exchange_start"
COALESCED_EXCHANGE_WAIT = "lowtide::coalesced_exchange_wait"

#: By the op that starts a collective, the one that waits for it.
WAITS = {GATHER_START: GATHER_WAIT, REDUCE_START: REDUCE_WAIT, SCATTER_START: SCATTER_WAIT,
         EXCHANGE_START: EXCHANGE_WAIT, COALESCED_GATHER_START: COALESCED_GATHER_WAIT,
         COALESCED_EXCHANGE_START: COALESCED_EXCHANGE_WAIT}

#: What only reads parameters, and may run again.
GATHER_STARTS = GATHER_START, COALESCED_GATHER_START

#: Of errors.
GATHER, EXCHANGE = "a gather of parameters", "an exchange of gradients"

LIBRARY = torch.library.Library("lowtide", "FRAGMENT")
LIBRARY.define("gather_start(Tensor[] shards, str group, ScalarType? dtype=None) -> Tensor")
LIBRARY.define("gather_wait(Tensor pending) -> Tensor")
LIBRARY.define("reduce_start(Tensor[] gradients, str group) -> Tensor")
LIBRARY.define("reduce_wait(Tensor pending) -> Tensor")
LIBRARY.define("scatter_start(Tensor[] gradients, str group) -> Tensor")
LIBRARY.define("scatter_wait(Tensor pending, str group) -> Tensor")
LIBRARY.define("exchange_start(Tensor[] gradients, str group) -> Tensor")
LIBRARY.define("exchange_wait(Tensor pending, Tensor[] gradients, str group) -> Tensor")


#: Makes what is around the wait for a collective, so that its errors name it.
Naming = Callable[[], contextlib.AbstractContextManager[None]]


class InFlight:
    """The collectives that were started and not waited for, by the address of their result."""

    def __init__(self):
        self._works: dict[int, tuple[Naming, list[dist.Work]]] = {}
        self._is_connected = True

    @contextlib.contextmanager
    def unconnected(self) -> Iterator[None]:
        """While it lasts, ops make their results and send nothing, as where they are measured."""
        self._is_connected = False
        try:
            yield
        finally:
            self._is_connected = True

    def start(self, pending: torch.Tensor, group: Ranks, call: str,
              begin: Callable[[], Sequence[dist.Work]]) -> None:
        """``call``: what ``begin`` starts on the group, for errors. Does nothing while
        unconnected. Raises RankError for a rank that is gone."""
        if self._is_connected:
            naming = functools.partial(group.named, call)
            with naming():
                self._works[pending.data_ptr()] = naming, list(begin())

    def wait(self, pending: torch.Tensor) -> None:
        """Returns when the collective is over that ``pending`` is the result of, where there is
        one. Raises RankError for a rank that is gone."""
        if pending.data_ptr() in self._works:
            self._finish(*self._works.pop(pending.data_ptr()))

    def settle(self) -> None:
        """Returns when no collective is under way. Raises RankError."""
        while self._works:
            self._finish(*self._works.popitem()[1])

    @staticmethod
    def _finish(naming: Naming, works: Sequence[dist.Work]) -> None:
        with naming():
            for work in works:
                work.wait()

    def abandon(self) -> None:
        """A pass has failed, and its memory is given back: waits for what is under way, whatever
        becomes of it."""
        while self._works:
            for work in self._works.popitem()[1][1]:
                with contextlib.suppress(RuntimeError):
                    work.wait()

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def __len__(self) -> int:
        return len(self._works)


IN_FLIGHT = InFlight()


@contextlib.contextmanager
def none_left_in_flight() -> Iterator[None]:
    """Around a pass, whose memory may be given back after it: what the plan of a forward pass waits
    for in its backward pass has ended by then, and what a pass that fails has started."""
    try:
        with rank_errors_of_ops():
            yield
    except BaseException:
        IN_FLIGHT.abandon()
        raise
    IN_FLIGHT.settle()


# ---- All ranks get the whole of what each has a part of

def elements_of(tensors: Sequence[torch.Tensor]) -> int:
    """Of all together."""
    return sum(tensor.numel() for tensor in tensors)


def made_to_gather(shards: Sequence[torch.Tensor], group: str,
                   dtype: torch.dtype | None = None) -> torch.Tensor:
    """Room for what all ranks have."""
    return shards[0].new_empty(GROUPS[group].size * elements_of(shards), dtype=dtype)


def _gather_start(shards: Sequence[torch.Tensor], group: str,
                  dtype: torch.dtype | None = None) -> torch.Tensor:
    """The rows of all ranks in a row, of one tensor after the other. ``dtype``: that they are sent
    in, where it is not their own."""
    ranks = GROUPS[group]
    whole = made_to_gather(shards, group, dtype)
    if IN_FLIGHT.is_connected:
        wholes = whole.split([ranks.size * shard.numel() for shard in shards])
        for shard, part in zip(shards, wholes):
            part.chunk(ranks.size)[ranks.rank].copy_(shard.view(-1))
        IN_FLIGHT.start(whole, ranks, GATHER, lambda: [
            work for part in wholes for work in gathered(ranks, part)])
    return whole


def gathered(group: Ranks, whole: torch.Tensor) -> list[dist.Work]:
    """Starts to gather all parts of ``whole``, of which this rank's is there. Gloo's own all-gather
    takes twice the result's bytes behind the op. Messages from rank to rank take none, and come to
    where they are to be."""
    parts = whole.chunk(group.size)
    if group.backend != "gloo":
        return [group.data._allgather_base(whole, parts[group.rank])]
    return swapped(group, [parts[group.rank]] * group.size, parts)


def swapped(group: Ranks, sent: Sequence[torch.Tensor],
            received: Sequence[torch.Tensor]) -> list[dist.Work]:
    """Starts to send: by rank, what it is sent and what comes from it; nothing for this one. All
    ranks do this in one order, by which messages are told apart."""
    tag = group.next_tag()
    others = [(group.rank + step) % group.size for step in range(1, group.size)]
    return [*(group.data.recv([received[other]], other, tag) for other in reversed(others)),
            *(group.data.send([sent[other]], other, tag) for other in others)]


def _gather_wait(pending: torch.Tensor) -> torch.Tensor:
    return _waited(pending)


# ---- All ranks get the mean of what each has

def _made_for(gradients: Sequence[torch.Tensor]) -> torch.Tensor:
    """Room for the elements of all, in a row; for a single one, as it lies."""
    if len(gradients) == 1:
        return torch.empty_like(gradients[0])
    return gradients[0].new_empty(elements_of(gradients))


def _reduce_start(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """One gradient, which the result may be written over, or a bucket of several in a row, each
    with its elements as they lie in memory."""
    ranks = GROUPS[group]
    share = 1.0 / ranks.size if ranks.reduces else 1.0
    bucket = _made_for(gradients)
    first = 0
    for gradient in gradients:
        torch.mul(gradient, share, out=bucket.as_strided(gradient.shape, gradient.stride(), first))
        first += gradient.numel()
    if ranks.reduces:
        IN_FLIGHT.start(bucket, ranks, "a reduction of gradients",
                        lambda: [ranks.data.allreduce([_in_a_row(bucket)])])
    return bucket


def _in_a_row(tensor: torch.Tensor) -> torch.Tensor:
    """Backends want contiguous tensors; a sum by element does not ask where elements lie."""
    return tensor.as_strided((tensor.numel(),), (1,))


def _reduce_wait(pending: torch.Tensor) -> torch.Tensor:
    return _waited(pending)


# ---- Each rank gets its part of the mean of what all have, in place

def _scatter_start(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """``gradients``: contiguous, with rows that are a multiple of the number of ranks. The result
    has the first ranks' rows of all of them first; it may be written over a single one."""
    ranks = GROUPS[group]
    sums = _made_for(gradients)
    parts = sums.view(-1).chunk(ranks.size)
    first = 0
    for gradient in gradients:
        size = gradient.numel() // ranks.size
        for part, given in zip(parts, gradient.view(-1).chunk(ranks.size)):
            torch.mul(given, 1.0 / ranks.size, out=part[first:first + size])
        first += size
    IN_FLIGHT.start(sums, ranks, "a scatter of gradients",
                    lambda: _scatter(ranks, sums.view(-1), parts))
    return sums


def _scatter(group: Ranks, sums: torch.Tensor, parts: Sequence[torch.Tensor]) -> list[dist.Work]:
    """Gloo's own reduce-scatter takes the bytes of all again behind the op."""
    if group.backend != "gloo":
        return [group.data._reduce_scatter_base(parts[group.rank], sums)]
    return [group.data.reduce([part], _to(root)) for root, part in enumerate(parts)]


def _to(root: int) -> dist.ReduceOptions:
    options = dist.ReduceOptions()
    options.rootRank, options.rootTensor = root, 0
    return options


def _scatter_wait(pending: torch.Tensor, group: str) -> torch.Tensor:
    """This rank's rows of the mean, of one gradient after the other. What the others' rows were is
    gone."""
    ranks = GROUPS[group]
    IN_FLIGHT.wait(pending)
    return pending.view(-1).chunk(ranks.size)[ranks.rank].clone()


# ---- The same by fewer and shorter messages, for which there is room

def can_exchange(group: Ranks) -> bool:
    """Other backends have a reduce-scatter of their own."""
    return group.backend == "gloo" and group.size > 1


def _exchange_start(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    """``gradients``: as of a scatter. They are sent from where they lie; the result has this rank's
    rows of the others, of one gradient after the other."""
    ranks = GROUPS[group]
    pending = _made_to_receive(gradients, group)
    IN_FLIGHT.start(pending, ranks, EXCHANGE, lambda: [
        work for gradient, received in _with_received(ranks, gradients, pending)
        for work in swapped(ranks, gradient.view(-1).chunk(ranks.size), received)])
    return pending


def _exchange_wait(pending: torch.Tensor, gradients: Sequence[torch.Tensor],
                   group: str) -> torch.Tensor:
    """This rank's rows of the mean, of one gradient after the other, added up by rank."""
    ranks = GROUPS[group]
    IN_FLIGHT.wait(pending)
    means = pending.new_empty(elements_of(gradients) // ranks.size)
    sizes = [gradient.numel() // ranks.size for gradient in gradients]
    for mean, (gradient, received) in zip(means.split(sizes),
                                          _with_received(ranks, gradients, pending)):
        received[ranks.rank] = gradient.view(-1).chunk(ranks.size)[ranks.rank]
        added_up(received, mean)
    return means


def added_up(of_ranks: Sequence[torch.Tensor], mean: torch.Tensor) -> torch.Tensor:
    """Their mean, written to ``mean``, added up in their order."""
    torch.mul(of_ranks[0], 1.0 / len(of_ranks), out=mean)
    for part in of_ranks[1:]:
        mean.add_(part, alpha=1.0 / len(of_ranks))
    return mean


def _made_to_receive(gradients: Sequence[torch.Tensor], group: str) -> torch.Tensor:
    ranks = GROUPS[group]
    return gradients[0].new_empty(elements_of(gradients) // ranks.size * (ranks.size - 1))


def _with_received(group: Ranks, gradients: Sequence[torch.Tensor], pending: torch.Tensor
                   ) -> Iterator[tuple[torch.Tensor, list[torch.Tensor]]]:
    """Each gradient, with the part of ``pending`` for what comes of it by rank; nothing of this
    one."""
    first = 0
    for gradient in gradients:
        size = gradient.numel() // group.size
        last = first + size * (group.size - 1)
        received = list(pending[first:last].chunk(group.size - 1))
        received.insert(group.rank, pending[:0])
        yield gradient, received
        first = last


def _waited(pending: torch.Tensor) -> torch.Tensor:
    """The same bytes once they are there. A plan lets the result lie where ``pending`` does, and
    then nothing is copied."""
    IN_FLIGHT.wait(pending)
    result = torch.empty_like(pending)
    if result.data_ptr() != pending.data_ptr():
        result.copy_(pending)
    return result


# ---- Registration

def _fake_scatter_wait(pending, group):
    return pending.new_empty(pending.numel() // GROUPS[group].size)


def _fake_exchange_wait(pending, gradients, group):
    return pending.new_empty(elements_of(gradients) // GROUPS[group].size)


def register(name: str, run, fake) -> None:
    """``fake``: what makes the result without elements."""
    LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"lowtide::{name}", fake, lib=LIBRARY)


register("gather_start", _gather_start, made_to_gather)
register("gather_wait", _gather_wait, torch.empty_like)
register("reduce_start", _reduce_start, lambda gradients, group: _made_for(gradients))
register("reduce_wait", _reduce_wait, torch.empty_like)
register("scatter_start", _scatter_start, lambda gradients, group: _made_for(gradients))
register("scatter_wait", _scatter_wait, _fake_scatter_wait)
register("exchange_start", _exchange_start, _made_to_receive)
register("exchange_wait", _exchange_wait, _fake_exchange_wait)
