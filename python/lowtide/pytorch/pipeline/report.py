"""What the stages of a pipeline were planned to take."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ... import format_bytes
from ..common.table import aligned
from .step_time import StepTime


@dataclasses.dataclass(frozen=True)
class StageReport:
    """Of one stage. ``blocks``: their names. ``waiting``: passes at one time. ``aside_bytes``: of
    each; ``block_bytes``: while one runs. ``keep_all_seconds``: of a micro-batch, forward and
    backward, where nothing runs again. ``reruns``: ops that run again, by their names."""

    stage: int
    rank: int
    blocks: tuple[str, ...]
    waiting: int
    aside_bytes: int
    block_bytes: int
    forward: float
    backward: float
    keep_all_seconds: float
    reruns: tuple[str, ...]

    @property
    def overhead(self) -> float:
        seconds = self.forward + self.backward
        return seconds / self.keep_all_seconds - 1 if self.keep_all_seconds else 0.0


def report_of(stages: Sequence[StageReport], rank_bytes: Sequence[int], budget: str,
              predicted: StepTime, most: int) -> str:
    """Of all ranks; at most ``most`` ops that run again for each stage."""
    rows = [[str(one.stage), str(one.rank), _named(one.blocks), str(one.waiting),
             format_bytes(one.aside_bytes), format_bytes(one.block_bytes),
             f"{1e3 * one.forward:.2f}", f"{1e3 * one.backward:.2f}", f"{one.overhead:+.1%}"]
            for one in stages]
    head = ["stage", "rank", "blocks", "in flight", "each waits in", "runs in", "forward ms",
            "backward ms", "reruns"]
    peaks = ", ".join(f"rank {rank} {format_bytes(size)}" for rank, size in enumerate(rank_bytes))
    parts = [f"Budget of each rank: {budget}. Planned peaks: {peaks}.",
             f"Predicted: a step of {1e3 * predicted.seconds:.2f} ms, of which ranks wait "
             f"{predicted.bubble:.1%}.", aligned([head, *rows], left=3)]
    parts += [f"Stage {one.stage} runs again: {_some(one.reruns, most)}."
              for one in stages if one.reruns]
    return "\n".join(parts)


def _named(blocks: Sequence[str]) -> str:
    return blocks[0] if len(blocks) == 1 else f"{blocks[0]} to {blocks[-1]}"


def _some(names: Sequence[str], most: int) -> str:
    left = len(names) - most
    return ", ".join(names[:most]) + (f", and {left} more" if left > 0 else "")
