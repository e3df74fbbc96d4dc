"""A plan for a captured step within a budget that holds what it holds for ``lowtide.wrap``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ... import Estimate, Graph, InfeasibleError, Planned, format_bytes, plan
from ..budget.account import BudgetAccount
from ..budget.budget import Budget
from ..budget.settings import Settings
from ..plans.planning import NoPlan, PricedGraph, Refusal, keep_all_step_bytes, price


class _CapturedStep:
    """The only graph of a budget, which has ``after_bytes`` for what follows its passes."""

    copied_gradient_bytes = 0
    decides = True

    def __init__(self, priced: PricedGraph, after_bytes: int):
        self.priced = priced
        self.uncounted_bytes = priced.uncounted_bytes
        self.whole_bytes = keep_all_step_bytes(priced, after_bytes) + priced.uncounted_bytes


class _OnePass:
    """Each graph is a step of its own."""

    def of(self, region: _CapturedStep) -> Mapping[_CapturedStep, int]:
        return {region: 1}


def with_plan(found: Estimate, graph: Graph, limit: Budget, optimizer: object,
              parameters: Sequence[torch.Tensor], seconds: float) -> Estimate:
    """The estimate with the peak of a plan of the captured step. Raises InfeasibleError where
    there is none.

    ``optimizer``: as for ``optimizer_state_bytes``, of ``parameters``.
    """
    settings = Settings(limit, optimizer)  # type: ignore[arg-type]
    account, step = _account(graph, settings, parameters)
    try:
        share = account.share(step)
    except InfeasibleError:
        share = 1  # refused below, with the smallest budget
    planned = plan(graph, share, time_limit=seconds)
    if planned.plan is None:
        raise _no_plan(planned, account, step)
    beside = account.fixed_bytes + step.uncounted_bytes
    return found.with_plan(budget=account.budget_bytes, strategy=planned.plan.strategy,
                           peak=planned.plan.peak_bytes + beside, overhead=planned.overhead)


def _account(graph: Graph, settings: Settings, parameters: Sequence[torch.Tensor]
             ) -> tuple[BudgetAccount[_CapturedStep], _CapturedStep]:
    steps: list[_CapturedStep] = []
    account: BudgetAccount[_CapturedStep] = BudgetAccount(settings, lambda: parameters, steps,
                                                          _OnePass())
    priced = price(graph, "cpu", replaces_results=False)
    after = account.afterwards.bytes_beside_gradients(priced.input_bytes) - priced.uncounted_bytes
    steps.append(_CapturedStep(priced, max(0, after)))
    account.invalidate()
    return account, steps[0]


def _no_plan(planned: Planned, account: BudgetAccount[_CapturedStep],
             step: _CapturedStep) -> InfeasibleError:
    if planned.smallest_budget is None:
        return NoPlan(Refusal(planned.message))
    smallest = account.smallest_sufficient({step: planned.smallest_budget})
    return NoPlan(Refusal(
        f"infeasible: the smallest budget that does is {format_bytes(smallest)} ({smallest} "
        f"bytes). {planned.why_not_less} {account.describe_reserved()}"), smallest)
