"""What a session is given of a graph that was traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch

from ..budget.settings import Settings
from ..capture import Captured
from ..stash import Stashes


class Traced(Protocol):
    """As of ``Session.add``."""

    captured: Captured
    trained: list[torch.Tensor]
    stashes: Stashes[Captured]


#: Captures a graph by other settings, without another trace.
Again = Callable[[Settings], Traced]
