"""Collectives of a process group on tensors of any type and size, with errors that name ranks."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import torch
import torch.distributed as dist

from ... import InputError
from ...arguments import checked_count, checked_switch, checked_timeout
from .agreement import described, digest, disagreement
from .calls import Call, decoded_call, encoded_call, rows_text, tensor_text
from .communication_costs import CommunicationCosts, fitted_costs
from .errors import collective_named
from .measurement import measured_times
from .process_group import (
    all_gather_single,
    chosen_device,
    open_default_group,
    reduce_scatter_single,
)
from .wire import OPS, apart, bytes_of, plain, shares_memory, tensor_of_bytes, wire_for, with_rows

#: Bytes of the tensors that ``measure`` sends, from 1 KiB to 16 MiB.
SIZES = tuple(1024 * 4**power for power in range(8))


class Communicator:
    """The ranks of a process group and their collectives; made by ``Communicator.create``.

    Tensors are on ``device``. Results are new tensors, contiguous and without a graph; what is
    given is not changed unless ``in_place`` is set. Results of reductions are the same bits on each
    rank, and in each run with as many ranks. Sums are made in the tensor's type, as the backend
    makes them. NaN in "max" and "min" is as the backend has it. The rows of a tensor are along its
    first dimension; a tensor without dimensions counts as one row.

    Raises InputError, before a tensor is sent, for a call that has no meaning or is another one on
    another rank; RankError where a rank does not answer.
    """

    def __init__(self, group: dist.ProcessGroup, device: torch.device, check: bool, owns: bool):
        self._check, self._owns, self._is_closed = check, owns, False
        self.group, self.device = group, device
        self.rank: int = dist.get_rank(group)
        self.size: int = dist.get_world_size(group)

    @classmethod
    def create(cls, group: dist.ProcessGroup | None = None, *,
               device: str | torch.device | None = None, timeout: float | None = None,
               check: bool = True) -> Communicator:
        """Of ``group``, by default all ranks. Where PyTorch has no process group yet, one is made:
        from torchrun's environment, or, without torchrun, of this process alone; with Gloo for the
        CPU and NCCL for a GPU. ``close()``, or the end of a ``with`` block, closes that one.

        ``device``: by default the GPU of torchrun's LOCAL_RANK where there are GPUs.
        ``timeout``: seconds after which a collective fails, of a group that is made here.
        ``check``: before each collective, ranks tell each other what they call, in a message of
        128 bytes, so that a rank that calls something else is named and nothing is mixed up.
        """
        chosen, checks = chosen_device(device), bool(checked_switch("check", check))
        timeout = None if timeout is None else checked_timeout(timeout)
        if group is not None and not isinstance(group, dist.ProcessGroup):
            raise InputError(f"group must be a process group of torch.distributed in which this "
                             f"process is, or None, not {group!r}")
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)
        owns = not dist.is_initialized()
        if owns:
            open_default_group(chosen, timeout)
        return cls(group or dist.group.WORLD, chosen, checks, owns)

    def close(self) -> None:
        """Closes the process group if ``create`` made it. Does nothing the second time."""
        if not self._is_closed and self._owns and dist.is_initialized():
            dist.destroy_process_group()
        self._is_closed = True

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def allreduce(self, x: torch.Tensor, op: str = "sum", *,
                  in_place: bool = False) -> torch.Tensor:
        """The reduction of the tensors of all ranks, which have one shape and type.

        ``op``: "sum", "mean" (of floating and complex numbers), "max", "min", "product".
        ``in_place``: writes it to ``x``, which is returned.
        """
        call = f"allreduce({op})"
        values = self._sendable(x, call, in_place)
        wire = wire_for(x.dtype, op, call)
        self._require_one_call(f"{call} of {tensor_text(x)}")
        total = wire.encode(values)
        total = total if in_place else apart(total, x)
        if self._is_sent(total):
            with collective_named(call, self.rank, self.size):
                dist.all_reduce(total, OPS[op], group=self.group)
        return _delivered(wire.decode(self._averaged(total, op)), x, in_place)

    def reduce_scatter(self, x: torch.Tensor, op: str = "sum") -> torch.Tensor:
        """This rank's rows of the reduction of the tensors of all ranks, which have one shape and
        type. ``rows_of`` says which rows a rank gets: the last ranks may get fewer, or none."""
        call = f"reduce_scatter({op})"
        values = _in_rows(self._sendable(x, call))
        wire = wire_for(x.dtype, op, call)
        self._require_one_call(f"{call} of {tensor_text(x)}")
        begin, end = self.rows_of(self.rank, len(values))
        encoded = wire.encode(values)
        mine = apart(encoded[begin:end], x)
        if self._is_sent(encoded):
            rows, _ = divmod(len(values) + self.size - 1, self.size)
            mine = encoded.new_empty((rows, *encoded.shape[1:]))
            with collective_named(call, self.rank, self.size):
                reduce_scatter_single(mine, with_rows(encoded, rows * self.size), OPS[op],
                                      group=self.group)
        return wire.decode(self._averaged(mine[:end - begin], op))

    def allgather(self, x: torch.Tensor) -> torch.Tensor:
        """The rows of all ranks, one rank after another. Their numbers may differ between ranks,
        the shape of a row and the type may not."""
        values = _in_rows(self._sendable(x, "allgather"))
        calls = self._calls(f"allgather of {rows_text(values)}", len(values))
        row_bytes = math.prod(values.shape[1:]) * values.element_size()
        sizes = [call.rows * row_bytes for call in calls]
        if self.size == 1:
            return apart(values, x)
        if not sum(sizes):
            return values.new_empty((sum(call.rows for call in calls), *values.shape[1:]))
        parts = self._gathered_bytes(bytes_of(values), max(sizes), "allgather")
        whole = torch.cat([part[:size] for part, size in zip(parts, sizes)])
        return whole.view(values.dtype).reshape(-1, *values.shape[1:])

    def allgather_text(self, text: str) -> list[str]:
        """The texts of all ranks, of any lengths."""
        mine = tensor_of_bytes(text.encode() + b"\0").to(self.device)  # an empty one has no memory
        ends = self.allgather(torch.tensor(len(mine), device=self.device)).cumsum(0).tolist()
        whole = self.allgather(mine).cpu().numpy().tobytes()
        return [whole[begin:end - 1].decode() for begin, end in zip([0, *ends], ends)]

    def broadcast(self, x: torch.Tensor, root: int = 0, *,
                  in_place: bool = False) -> torch.Tensor:
        """The tensor of the rank ``root``; all have its shape and type. ``in_place``: writes it to
        ``x``, which is returned."""
        root = checked_count("root", root, 0, self.size - 1)
        call = f"broadcast(root {root})"
        values = self._sendable(x, call, in_place)
        values = values if in_place else apart(values, x)
        self._require_one_call(f"{call} of {tensor_text(x)}")
        if self._is_sent(values):
            with collective_named(call, self.rank, self.size):
                dist.broadcast(bytes_of(values), group=self.group, group_src=root)
        return _delivered(values, x, in_place)

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        self._require_open("barrier")
        self._require_one_call("barrier")
        if self.size > 1:
            with collective_named("barrier", self.rank, self.size):
                dist.barrier(self.group)

    def agree(self, **values: object) -> None:
        """Raises InputError on all ranks, and the same, where ``values`` differ between them: it
        names the ranks and the differences. Of modules and tensors, shapes and types are compared;
        of an optimizer, its class and options; of other objects, their classes."""
        self._require_open("agree")
        lines = described(values)
        digests = self.allgather(tensor_of_bytes(digest(lines)).to(self.device)).view(self.size, -1)
        if not (digests == digests[0]).all():
            of_ranks = list(map(json.loads, self.allgather_text(json.dumps(lines))))
            raise InputError(f"the ranks of this training differ: {disagreement(of_ranks)}. Give "
                             f"every rank the same model, inputs of the same shapes, budget and "
                             f"options")

    def measure(self, sizes: Sequence[int] = SIZES, repeats: int = 7) -> CommunicationCosts:
        """Latency and bandwidth of the collectives of this group, from the medians of ``repeats``
        calls with tensors of these bytes; the same on each rank, which all must call it. Nothing
        else should run meanwhile. Raises InputError for a group of one rank, which sends nothing.
        """
        self._require_open("measure")
        sizes = [checked_count("a size", size, 1) for size in sizes]
        if self.size == 1 or len(set(sizes)) < 2:
            raise InputError(f"measure needs 2 ranks and 2 sizes or more, and has {self.size} and "
                             f"{len(set(sizes))}: start more processes with torchrun")
        self._require_one_call(f"measure of {sizes}")
        times = measured_times(self.group, self.device, sizes,
                               checked_count("repeats", repeats, 1))
        return fitted_costs(self.size, dist.get_backend(self.group), times)

    def rows_of(self, rank: int, rows: int) -> tuple[int, int]:
        """The first of ``rows`` rows that ``reduce_scatter`` gives to a rank, and the one after its
        last: ceil(rows / size) for each rank as far as they go, as ``torch.chunk`` and ``Shard(0)``
        of DTensor divide."""
        share = -(-rows // self.size)
        return min(rank * share, rows), min((rank + 1) * share, rows)

    def _sendable(self, x: torch.Tensor, call: str, in_place: bool = False) -> torch.Tensor:
        """The values of a tensor, contiguous: in its own memory where they are so there."""
        self._require_open(call)
        where = f"rank {self.rank} of {self.size}: {call}"
        if not isinstance(x, torch.Tensor):
            raise InputError(f"{where} takes a torch.Tensor, not {type(x).__name__}")
        if x.layout != torch.strided or x.is_quantized or hasattr(x, "to_local"):
            raise InputError(f"{where} takes plain dense tensors, not {type(x).__name__} of layout "
                             f"{x.layout}: convert it, such as with .to_dense(), .dequantize() or "
                             f".to_local()")
        if x.device != self.device:
            raise InputError(f"{where}: the tensor is on {x.device}, and this communicator's "
                             f"tensors are on {self.device}: move it with .to(comm.device)")
        if in_place and torch._debug_has_internal_overlap(x) == 1:
            raise InputError(f"{where}: elements of the tensor share memory, so it cannot be "
                             f"written in place: leave in_place out, or give x.contiguous()")
        return plain(x)

    def _require_open(self, call: str) -> None:
        if self._is_closed:
            raise InputError(f"rank {self.rank} of {self.size}: {call} was called after close(): "
                             f"call it within the block of the communicator")

    def _require_one_call(self, text: str) -> None:
        if self._check:
            self._calls(text)

    def _calls(self, text: str, rows: int = 0) -> list[Call]:
        """Of all ranks, which must be equal but for their rows."""
        message = encoded_call(text, rows)
        if self.size == 1:
            return [decoded_call(message)]
        parts = self._gathered_bytes(message.to(self.device), len(message), text)
        calls = [decoded_call(part) for part in parts]
        if not all(call.equals(calls[0]) for call in calls):
            texts = [{"its call": call.text} for call in calls]
            raise InputError(f"ranks make different calls: {disagreement(texts)}. Every rank must "
                             f"call the same collectives in one order, with equal types and shapes")
        return calls

    def _gathered_bytes(self, mine: torch.Tensor, most: int, call: str) -> tuple[torch.Tensor, ...]:
        """``mine`` of each rank, filled up to ``most`` bytes."""
        gathered = mine.new_empty(self.size * most)
        with collective_named(call, self.rank, self.size):
            all_gather_single(gathered, with_rows(mine, most), group=self.group)
        return gathered.view(self.size, most).unbind()

    def _is_sent(self, x: torch.Tensor) -> bool:
        return self.size > 1 and x.numel() > 0

    def _averaged(self, total: torch.Tensor, op: str) -> torch.Tensor:
        return total.div_(self.size) if op == "mean" else total


def _in_rows(values: torch.Tensor) -> torch.Tensor:
    return values if values.dim() else values.reshape(1)


def _delivered(result: torch.Tensor, x: torch.Tensor, in_place: bool) -> torch.Tensor:
    if not in_place:
        return result
    if not shares_memory(result, x):
        x.detach().copy_(result)
    return x
