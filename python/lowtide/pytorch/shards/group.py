"""The ranks of a mesh: what they agree on, and the process groups that they talk through."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from ... import Error, InputError

Value = TypeVar("Value")

#: Of what the ranks tell each other before they do something together: the first bytes of what it
#: is called, of a digest of what it is about, and numbers.
_NUMBERS = 4
_HEADER = struct.Struct(f"48s16s{_NUMBERS}q")

#: Of a message.
_SIZE = struct.Struct("q")

#: More than there are messages in flight.
_MOST_TAGS = 1 << 20

_keys = itertools.count()

#: By key, as ops of a graph name it. A group is there as long as its process.
GROUPS: dict[str, Group] = {}


class _Parted(Error):
    """Ranks have met for different things."""

    __module__, __qualname__ = "lowtide", Error.__qualname__


class Group:
    """All ranks of ``mesh``, which has one dimension.

    It has process groups of its own, so that its collectives do not mix with others of the program:
    one for agreements on the CPU, one for tensors. Made by all ranks of the mesh together. Raises
    InputError for what is no such mesh.
    """

    def __init__(self, mesh: DeviceMesh):
        if mesh.ndim != 1:
            raise InputError(f"mesh must have one dimension, not {mesh.ndim}: give a part of it, "
                             f"such as mesh[\"dp\"]")
        self.mesh = mesh
        self.key = str(next(_keys))
        known = mesh.get_group()
        self.rank, self.size = dist.get_rank(known), dist.get_world_size(known)
        self.backend: str = dist.get_backend(known)
        self.ranks = tuple(dist.get_process_group_ranks(known))
        ranks = list(self.ranks)
        self._talk = dist.new_group(ranks, backend="gloo", use_local_synchronization=True)
        self.data: dist.ProcessGroup = dist.new_group(ranks, backend=self.backend,
                                                      use_local_synchronization=True)
        #: Whether gradients of parameters that each rank has a copy of are reduced.
        self.reduces = True
        self._tags = itertools.count()
        GROUPS[self.key] = self

    def __deepcopy__(self, memo) -> Group:
        return self

    def next_tag(self) -> int:
        """Of messages from rank to rank: the same on all ranks that send them in one order."""
        return next(self._tags) % _MOST_TAGS

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
        done, value = pickle.loads(self._from_first(message))
        if not done:
            raise failure or value
        return value

    @contextlib.contextmanager
    def failing_together(self, what: str) -> Iterator[None]:
        """Around what all ranks do: where one raises, the others raise too, and do not wait for it
        in what they meet for next."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, _Parted):  # which all ranks know of
                with contextlib.suppress(Exception):  # the others are told, or gone
                    self.meet(f"fail to {what}: {type(error).__name__}")
            raise

    def meet(self, what: str, about: str = "", *numbers: int) -> list[tuple[int, ...]]:
        """By rank, its numbers, of which there are four at most. Raises Error where the ranks
        differ in what they do, by name."""
        digest = hashlib.sha256(about.encode()).digest()[:16]
        given = [*numbers, *[0] * (_NUMBERS - len(numbers))]
        mine = _HEADER.pack(what.encode()[:48], digest, *given)
        headers = [_HEADER.unpack(header) for header in self._all(mine)]
        words = [name.rstrip(b"\0").decode(errors="replace") for name, *_ in headers]
        if len(set(words)) > 1:
            raise _Parted(f"the ranks do not do the same: {_by_rank(words)}. Give all ranks "
                          f"batches of the same sizes, and have them call the model, backward() "
                          f"and lowtide.wrap equally often and in the same order (drop_last=True "
                          f"of a DataLoader leaves a smaller last batch out)")
        digests = [digest for _, digest, *_ in headers]
        if len(set(digests)) > 1:
            raise _Parted(f"the ranks are about to {words[0]}, but not the same: "
                          f"{_odd_ones_out(digests)}. All ranks need the same model, sizes of "
                          f"batches, versions and arguments of lowtide.wrap")
        return [tuple(found[:len(numbers)]) for _, _, *found in headers]

    def largest(self, what: str, about: str = "", *numbers: int) -> list[int]:
        """Of each number the largest of all ranks, as ``meet``."""
        return [max(of_ranks) for of_ranks in zip(*self.meet(what, about, *numbers))]

    def as_on_first(self, tensors: Iterable[torch.Tensor]) -> None:
        """Each of these has the elements that the first rank has."""
        tensors = list(tensors)
        self.meet("begin with the same tensors",
                  str([(tensor.dtype, tensor.shape) for tensor in tensors]))
        with torch.no_grad():
            for tensor in tensors:
                dense = tensor.detach().contiguous()
                dist.broadcast(dense, group=self.data, group_src=0)
                if dense.data_ptr() != tensor.data_ptr():
                    tensor.copy_(dense)

    def _from_first(self, message: bytes) -> bytes:
        """The message of the first rank, on all of them."""
        size = _SIZE.unpack(self._broadcast(bytearray(_SIZE.pack(len(message)))))[0]
        found = self._broadcast(bytearray(message) if self.rank == 0 else bytearray(size))
        return bytes(found)

    def _broadcast(self, buffer: bytearray) -> bytearray:
        dist.broadcast(_bytes_of(buffer), group=self._talk, group_src=0)
        return buffer

    def _all(self, mine: bytes) -> list[bytes]:
        given, found = bytearray(mine), bytearray(self.size * len(mine))
        self._talk._allgather_base(_bytes_of(found), _bytes_of(given)).wait()
        return [bytes(found[at:at + len(mine)]) for at in range(0, len(found), len(mine))]


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
