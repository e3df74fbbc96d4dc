"""The ranks of a mesh: what they agree on, and the process groups that they talk through."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from ... import Error, InputError
from ..ranks.errors import RankError, collective_named

Value = TypeVar("Value")

#: Of what the ranks tell each other before they do something together: the first bytes of what it
#: is called, of a digest of what it is about, and numbers.
_NUMBERS = 4
#: Of flags in one number.
_FLAGS = 62
_HEADER = struct.Struct(f"48s16s{_NUMBERS}q")

#: Of a message.
_SIZE = struct.Struct("q")

#: More than there are messages in flight.
_MOST_TAGS = 1 << 20

#: What begins the words for what a rank meets the others to tell that it has failed.
_FAIL = "fail to "

_keys = itertools.count()

#: By key, as ops of a graph name them. They are there as long as their process.
GROUPS: dict[str, Ranks] = {}


class _Parted(Error):
    """Ranks have met for different things, or one of them to tell that it has failed."""

    __module__, __qualname__ = "lowtide", Error.__qualname__


class Ranks:
    """``ranks``, this one among them, over which collectives of a graph go. They have a process
    group of their own for tensors, so that these do not mix with others of the program. Made by all
    of them together. ``timeout``: after which a collective fails."""

    def __init__(self, ranks: Sequence[int], backend: str, timeout: datetime.timedelta):
        # In this order, whatever that of a mesh is: the ranks of a process group are numbered so.
        self.ranks, self.backend, self._timeout = tuple(sorted(ranks)), backend, timeout
        self.rank, self.size = self.ranks.index(dist.get_rank()), len(self.ranks)
        self.key = str(next(_keys))
        self.data: dist.ProcessGroup = self._process_group(backend)
        #: Whether gradients of parameters that each rank has a copy of are reduced.
        self.reduces = True
        self._tags = itertools.count()
        GROUPS[self.key] = self

    def __deepcopy__(self, memo) -> Self:
        return self

    def next_tag(self) -> int:
        """Of messages from rank to rank: the same on all ranks that send them in one order."""
        return next(self._tags) % _MOST_TAGS

    def named(self, call: str) -> contextlib.AbstractContextManager[None]:
        """Around what all ranks call: errors of the backend become RankErrors with these words."""
        return collective_named(call, self.rank, self.size)

    def _process_group(self, backend: str) -> dist.ProcessGroup:
        with self.named("making a process group"):
            return dist.new_group(list(self.ranks), timeout=self._timeout, backend=backend,
                                  use_local_synchronization=True)


class Group(Ranks):
    """All ranks of ``mesh``. Of a mesh of two dimensions, shards lie along the second one, and the
    first one has copies of them (hybrid sharding).

    Ranks agree by a process group on the CPU. Collectives fail after as long as those of the mesh.
    Raises InputError for a mesh of more dimensions, or whose ranks do not ascend along each.
    """

    def __init__(self, mesh: DeviceMesh):
        _require_rows_and_copies(mesh)
        self.mesh = mesh
        along = [mesh.get_group(dimension) for dimension in range(mesh.ndim)]
        backend = dist.get_backend(along[0])
        timeout = along[0]._get_backend(torch.device(mesh.device_type)).options._timeout
        super().__init__(mesh.mesh.flatten().tolist(), backend, timeout)
        self._talk = self._process_group("gloo")
        #: The ranks that have the shards of one whole parameter together.
        self.sharing: Ranks = self
        #: Those that have the same shards, where there are others.
        self.alike: Ranks | None = None
        if mesh.ndim == 2:
            self.alike, self.sharing = (Ranks(dist.get_process_group_ranks(group), backend, timeout)
                                        for group in along)

    def of_first(self, make: Callable[[], Value], what: str, about: str = "") -> Value:
        """What the first rank makes, on all of them; what it raises, they raise.

        ``what``: a few words, such as "plan the model"; ``about``: a text that is the same on all
        ranks. Raises Error where another rank does something else or about something else.
        """
        self.meet(what, about)
        message = b""
        failure: BaseException | None = None
        if self.rank == 0:
            try:
                message = pickle.dumps((True, make()))
            except Exception as error:
                failure = error
                message = pickle.dumps((False, _picklable(error)))
        done, value = pickle.loads(self._from(0, message))
        if not done:
            raise failure or value
        return value

    def together(self, what: str, do: Callable[[], Value]) -> Value:
        """What ``do`` returns here. Where it raises on some rank, that one raises what it did, and
        the others an Error that names it."""
        failure: Exception | None = None
        try:
            done = do()
        except Exception as error:
            failure = error
        failed = [rank for rank, (number,) in enumerate(self.meet(what, "", failure is not None))
                  if number]
        if not failed:
            return done
        text = self._from(failed[0], str(failure).encode() if failed[0] == self.rank else b"")
        raise failure or Error(self._failed(failed[0], what, text))

    @contextlib.contextmanager
    def failing_together(self, what: str) -> Iterator[None]:
        """Around what all ranks do: where one raises, the others raise too, with its words, and do
        not wait for it in what they meet for next."""
        try:
            yield
        except Exception as error:
            # Of which all ranks know, or hear nothing any more.
            if not isinstance(error, (_Parted, RankError)):
                with contextlib.suppress(Exception):  # the others are told, or gone
                    self._meet(f"{_FAIL}{what}", "", (), str(error))
            raise

    def meet(self, what: str, about: str = "", *numbers: int) -> list[tuple[int, ...]]:
        """By rank, its numbers, of which there are four at most. Raises Error where the ranks
        differ in what they do, by name, or where one has failed."""
        return self._meet(what, about, numbers, "")

    def _meet(self, what: str, about: str, numbers: Sequence[int],
              failure: str) -> list[tuple[int, ...]]:
        """As ``meet``. ``failure``: of a rank that has failed, which all of them are told."""
        digest = hashlib.sha256(about.encode()).digest()[:16]
        given = [*numbers, *[0] * (_NUMBERS - len(numbers))]
        mine = _HEADER.pack(what.encode()[:48], digest, *given)
        with self.named(f"meeting the others to {what}"):
            headers = [_HEADER.unpack(header) for header in self._all(mine)]
        words = [name.rstrip(b"\0").decode(errors="replace") for name, *_ in headers]
        self._require_none_failed(words, failure)
        if len(set(words)) > 1:
            raise _Parted(f"the ranks do not do the same: {_by_rank(words)}. Give all ranks "
                          f"batches of the same sizes (or sizes of dynamic_shapes of "
                          f"lowtide.wrap), and have them call the model, backward() "
                          f"and lowtide.wrap equally often and in the same order (drop_last=True "
                          f"of a DataLoader leaves a smaller last batch out)")
        digests = [digest for _, digest, *_ in headers]
        if len(set(digests)) > 1:
            raise _Parted(f"the ranks are about to {words[0]}, but not the same: "
                          f"{_odd_ones_out(digests)}. All ranks need the same model, sizes of "
                          f"batches, versions and arguments of lowtide.wrap")
        return [tuple(found[:len(numbers)]) for _, _, *found in headers]

    def _require_none_failed(self, words: Sequence[str], failure: str) -> None:
        failed = [rank for rank, word in enumerate(words) if word.startswith(_FAIL)]
        if failed:
            text = self._from(failed[0], failure.encode() if failed[0] == self.rank else b"")
            raise _Parted(self._failed(failed[0], words[failed[0]].removeprefix(_FAIL), text))

    def _failed(self, rank: int, what: str, text: bytes) -> str:
        return f"rank {rank} of {self.size} failed to {what}: {text.decode()}"

    def largest(self, what: str, about: str = "", *numbers: int) -> list[int]:
        """Of each number the largest of all ranks, as ``meet``."""
        return [max(of_ranks) for of_ranks in zip(*self.meet(what, about, *numbers))]

    def any_of(self, what: str, about: str, flags: Sequence[bool]) -> list[bool]:
        """By place, whether the flag is set on some rank, as ``meet``. All have as many."""
        found = []
        for first in range(0, len(flags), _NUMBERS * _FLAGS):
            part = flags[first:first + _NUMBERS * _FLAGS]
            numbers = [in_one_number(part[begin:begin + _FLAGS])
                       for begin in range(0, len(part), _FLAGS)]
            of_ranks = self.meet(what, about, *numbers)
            found += [any(numbers[place // _FLAGS] >> place % _FLAGS & 1 for numbers in of_ranks)
                      for place in range(len(part))]
        return found

    def as_on_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """Each of these has the elements that the first rank has. Raises Error where ranks have
        others."""
        tensors = list(tensors)
        self.meet("begin with the same tensors",
                  str([(tensor.dtype, tensor.shape) for tensor in tensors]))
        self.copy_of_first(tensors)

    def copy_of_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """As of the function of this name, of what all ranks are known to have."""
        copy_of_first(tensors, self.data)

    def _from(self, rank: int, message: bytes) -> bytes:
        """The message of that rank, on all of them."""
        with self.named(f"a message of rank {rank}"):
            size = _SIZE.unpack(self._broadcast(rank, bytearray(_SIZE.pack(len(message)))))[0]
            found = self._broadcast(rank,
                                    bytearray(message) if self.rank == rank else bytearray(size))
        return bytes(found)

    def _broadcast(self, rank: int, buffer: bytearray) -> bytearray:
        dist.broadcast(_bytes_of(buffer), group=self._talk, group_src=rank)
        return buffer

    def _all(self, mine: bytes) -> list[bytes]:
        given, found = bytearray(mine), bytearray(self.size * len(mine))
        self._talk._allgather_base(_bytes_of(found), _bytes_of(given)).wait()
        return [bytes(found[at:at + len(mine)]) for at in range(0, len(found), len(mine))]


def in_one_number(flags: Iterable[bool]) -> int:
    return sum(flag << place for place, flag in enumerate(flags))


def copy_of_first(tensors: Iterable[torch.Tensor], group: dist.ProcessGroup) -> None:
    """Each of these has the elements that the first rank of ``group`` has. They are sent from where
    they lie, and take no memory beside that where they are contiguous."""
    works = []
    with (torch.no_grad(),
          collective_named("a broadcast of tensors", dist.get_rank(group), group.size())):
        for tensor in tensors:
            dense = tensor.detach().contiguous()
            work = dist.broadcast(dense, group=group, group_src=0, async_op=True)
            if dense.data_ptr() == tensor.data_ptr():
                works.append(work)
            else:  # and is gone before the next one
                work.wait()
                tensor.copy_(dense)
        for work in works:
            work.wait()


def _require_rows_and_copies(mesh: DeviceMesh) -> None:
    """Raises InputError for a mesh on which parameters cannot lie in rows."""
    if mesh.ndim > 2:
        raise InputError(f"mesh must have one dimension, or two for copies of shards, not "
                         f"{mesh.ndim}: give a part of it, such as mesh[\"dp\"] or "
                         f"mesh[\"replicate\", \"shard\"]")
    if any((mesh.mesh.diff(dim=dimension) < 0).any() for dimension in range(mesh.ndim)):
        raise InputError(f"the ranks of mesh must ascend along each of its dimensions, and they "
                         f"are {mesh.mesh.tolist()}: PyTorch's collectives go by ascending ranks, "
                         f"so that rows of its DTensors would be in another order. Make a mesh "
                         f"whose ranks are sorted along each dimension")


def _bytes_of(buffer: bytearray) -> torch.Tensor:
    """In Python's memory: the backend's threads let go of tensors later, and PyTorch's allocator
    would have them meanwhile, beside what a plan counts."""
    return torch.frombuffer(buffer, dtype=torch.uint8)


def _picklable(error: Exception) -> Exception:
    """Frames and causes stay where they are."""
    error = error.with_traceback(None)
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return Error(str(error))
    return error


def _by_rank(words: Sequence[str]) -> str:
    parts = [f"ranks {_listed(rank for rank, other in enumerate(words) if other == word)} {word}"
             for word in dict.fromkeys(words)]
    return ", but ".join(parts)


def _odd_ones_out(digests: Sequence[bytes]) -> str:
    usual = max(digests, key=digests.count)
    odd = _listed(rank for rank, digest in enumerate(digests) if digest != usual)
    return f"ranks {odd} differ from rank {digests.index(usual)}"


def _listed(ranks) -> str:
    return ", ".join(map(str, ranks))
