"""Calls that run without a plan, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch._dynamo.exc import FailOnRecompileLimitHit

from ..autograd.session import Session
from .trace import MOST_TRACES


class Unplanned:
    """Runs a model as PyTorch does, and says once for each cause that it does."""

    def __init__(self, model: torch.nn.Module, session: Session):
        self._model, self._session = model, session

    def run(self, why: str, arguments: Sequence, named: Mapping):
        self.note(why)
        self._session.evaluate()
        return self._model.forward(*arguments, **named)

    def note(self, why: str, cause: str | None = None) -> None:
        """That a call ran without a plan. ``cause``: of the warning, which comes once for each;
        None where the reason is the same each time."""
        message = f"{type(self._model).__name__} ran without a plan: {why}"
        self._session.note_unplanned(message, why, cause or why)


def graph_breaks() -> Counter:
    """How often Dynamo gave something up in this process, by its reason."""
    counted = torch._dynamo.utils.counters
    return Counter(counted["graph_break"]) + Counter(counted["unimplemented"])


def nothing_captured(breaks: Counter) -> str:
    reason = next((text.strip().splitlines()[0] for text in breaks if text.strip()), "")
    because = f" ({reason})" if reason else ""
    return (f"torch.compile captured nothing of it{because}. It gives up a whole function when "
            f"something that it cannot trace lies within a loop or a with block, and leaves code "
            f"that it does not know; TORCH_LOGS=graph_breaks shows the line. Wrap the modules that "
            f"can be traced one by one")


def traced_too_often(failure: FailOnRecompileLimitHit) -> str:
    reasons = [line.strip(" -") for line in str(failure).splitlines() if "reason" in line]
    because = f" ({reasons[-1]})" if reasons else ""
    return (f"it was traced {MOST_TRACES} times, and still meets calls that fit none of its "
            f"plans{because}. Give what changes in each step as an argument")


def in_a_transform() -> bool:
    """Whether a transform of ``torch.func`` is under way. Dynamo would give the function up, for
    all later calls too."""
    return torch._C._functorch.peek_interpreter_stack() is not None
