"""What a session is given of a graph that was traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from ..budget.settings import Settings
from ..capture import Captured
from ..stash import Stashes


class Traced(Protocol):
    """A captured graph. ``trained``: what is known of the parameters among its primals that need
    gradients. ``stashes``: what it may hold in fewer bits. ``again``: what captures it by other
    settings, where something does.
    """

    @property
    def captured(self) -> Captured: ...

    @property
    def trained(self) -> Sequence[torch.Tensor]: ...

    @property
    def stashes(self) -> Stashes[Captured]: ...

    @property
    def again(self) -> Again | None: ...


#: Captures a graph by other settings, without another trace.
Again = Callable[[Settings], Traced]
