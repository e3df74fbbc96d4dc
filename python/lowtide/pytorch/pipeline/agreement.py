"""Decisions that all ranks of a pipeline share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

from ... import Error, InfeasibleError, InputError

Value = TypeVar("Value")

#: Micro-seconds are too short to time: the shortest of so many round trips counts.
_ROUND_TRIPS = 5


class Agreement:
    """Of the ranks of one process group. Numbers are those within the group."""

    def __init__(self, group: dist.ProcessGroup | None):
        self.group = group
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)

    def decided_by_first(self, decide: Callable[[], Value]) -> Value:
        """What ``decide()`` returns on rank 0, on all ranks. An error of Lowtide's there is raised
        on all."""
        answer: list = [None]
        if self.rank == 0:
            answer = [_outcome(decide)]
        dist.broadcast_object_list(answer, dist.get_global_rank(self._group(), 0), self.group)
        return _value_or_raised([answer[0]])[0]

    def gathered(self, find: Callable[[], Value]) -> list[Value]:
        """By rank, what ``find()`` returns there. An error of Lowtide's on any rank is raised on
        all: of several budgets that do not fit, the one that lacks the most."""
        answers: list = [None] * self.ranks
        dist.all_gather_object(answers, _outcome(find), self.group)
        return _value_or_raised(answers)

    def sent_from_last(self, tensor: torch.Tensor) -> torch.Tensor:
        """The elements of the last rank's, on all."""
        dist.broadcast(tensor, dist.get_global_rank(self._group(), self.ranks - 1), self.group)
        return tensor

    def seconds_to_send(self, sizes: Sequence[int], device: torch.device) -> list[float]:
        """For messages of so many bytes, measured between the first two ranks; 0 on a single
        one."""
        if self.ranks == 1:
            return [0.0] * len(sizes)
        times = {size: self._measured(size, device) for size in sorted(set(sizes))}
        return self.decided_by_first(lambda: [times[size] for size in sizes])

    def _measured(self, size: int, device: torch.device) -> float:
        message = torch.zeros(max(1, size), dtype=torch.uint8, device=device)
        shortest = float("inf")
        for _ in range(_ROUND_TRIPS if self.rank < 2 else 0):
            begin = time.perf_counter()
            for sender in (0, 1):
                other = dist.get_global_rank(self._group(), 1 - self.rank)
                if self.rank == sender:
                    dist.send(message, other, self.group)
                else:
                    dist.recv(message, other, self.group)
            shortest = min(shortest, (time.perf_counter() - begin) / 2)
        return shortest

    def _group(self) -> dist.ProcessGroup:
        return self.group or dist.group.WORLD


def _outcome(find: Callable[[], Value]) -> tuple:
    """The value, or the kind, text and smallest budget of an error."""
    try:
        return True, find()
    except (InputError, InfeasibleError) as error:
        kind = InputError if isinstance(error, InputError) else InfeasibleError
        return False, kind, str(error), getattr(error, "smallest_budget", None)
    except Error as error:
        return False, Error, str(error), None


def _value_or_raised(answers: Sequence[tuple]) -> list:
    failures = [answer for answer in answers if not answer[0]]
    if failures:
        _, kind, text, smallest = max(failures, key=_weight)
        error = kind(text)
        if smallest is not None:
            error.smallest_budget = smallest
        raise error
    return [answer[1] for answer in answers]


def _weight(failure: tuple) -> float:
    """An error that no budget helps against comes first."""
    return float("inf") if failure[3] is None else failure[3]
