"""The module of a stage, whose passes run by a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch._dynamo.exc import TorchDynamoException

from ... import InputError, _runtime
from ..budget.settings import Settings
from ..capture.breaks import break_of
from ..common.module_state import unchanged
from ..dynamo.compile import compile_graph
from ..dynamo.trace import forget, traced
from .blocks import StageBlocks
from .stage_session import StageSession
from .waiting_plans import WaitingPlan, WaitingPlans


class PlannedStage(nn.Module):
    """Computes what ``blocks`` do, as one graph. ``capture`` is to be called first, and ``use``
    before the first pass."""

    def __init__(self, blocks: StageBlocks, name: str, settings: Settings):
        super().__init__()
        self.blocks = blocks
        self.session = StageSession(name, settings, blocks.trained())
        self._run = traced(_calling(blocks), self._compiled, fullgraph=True, fixed_shapes=True,
                           name=name)

    def forward(self, *values, targets=None):
        # Targets come to all stages of a rank, and are for the one that has the loss.
        return self._run(*values, targets if self.blocks.loss_fn is not None else None)

    def capture(self, inputs: Sequence[torch.Tensor],
                targets: torch.Tensor | None) -> WaitingPlans:
        """Captures, measures, and runs nothing: the plans that there may be. Raises InputError for
        what cannot be captured."""
        try:
            with unchanged(self.blocks), torch.enable_grad():
                region = self.session.prepare(lambda: self(*inputs, targets=targets))
        except TorchDynamoException as error:
            raise InputError(f"{self.session.name} cannot be traced as one graph: "
                             f"{break_of(error)}") from None
        return WaitingPlans(region.priced.graph, region.captured.device, self.session.settings)

    @property
    def uncounted_bytes(self) -> int:
        """What a pass takes that no plan counts: results in the caller's memory, states of the
        random generator, its ticket."""
        region = self.session.region
        assert region is not None
        ticket = torch.int64.itemsize * _runtime.Executor.ticket_size(region.captured.device)
        return region.priced.uncounted_bytes + ticket

    def use(self, plan: WaitingPlan) -> None:
        self.session.use(plan)

    def let_go(self) -> None:
        """Of what was traced."""
        forget(self._run)

    def _compiled(self, graph, inputs):
        return compile_graph(graph, inputs, self.session)


def _calling(blocks: StageBlocks) -> Callable:
    def run(*given):
        *values, targets = given
        return blocks.forward(*values, targets=targets)

    return run
