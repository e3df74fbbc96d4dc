"""Lowtide: a plan within a budget of bytes for all tensors of the process."""

import lowtide
from lowtide.pytorch.wrap import session_of

from . import LOWEST, UNLIMITED
from .floors import floor_with_gradients, kept_between_passes

NEAR = 1.02  # the ratio of a budget that does to one that does not, at the end
PLANNING_SECONDS = 30  # of each search for the least budget, where nothing else is said


def prepare(case, optimizer, setting, **options):
    """`setting`: bytes, parameters, optimizer state and inputs included; "+" and bytes beside
    those; a share of what a step takes that keeps everything ("60%"); UNLIMITED; or LOWEST, the
    least that a plan is found for. `options`: as of wrap()."""
    wrapped = _lowest(case, optimizer, options) if setting == LOWEST else _within(
        case, optimizer, _budget(case, optimizer, setting, options), options)

    def loss():
        return wrapped(*case.inputs)

    if options.get("mode") != "inductor":
        loss.planned = _planned(session_of(wrapped))
    return loss


def _budget(case, optimizer, setting, options):
    if setting == UNLIMITED:
        return None
    if not setting.startswith("+"):
        return setting
    session = session_of(_within(case, optimizer, None, options))
    return session.memory().existing + int(setting[1:])


def _within(case, optimizer, budget, options):
    """By a plan that is searched for now: a stored one may be improved in the background, whose
    time would count as the step's."""
    return lowtide.wrap(case.module, case.inputs, budget=budget, optimizer=optimizer, cache=False,
                        **options)


def _lowest(case, optimizer, options):
    """Within the least that a plan of the step's graph is found for. A search of its own for that
    budget may find none: what it names does then."""
    session = session_of(_within(case, optimizer, None, options))
    [region] = session.regions
    limit = options.get("time_limit", PLANNING_SECONDS)
    above = _least_bytes(region.priced.graph, region.priced.floor_bytes, limit)
    budget = session.memory().existing + above - region.priced.resident_bytes
    try:
        return _within(case, optimizer, budget, options)
    except lowtide.InfeasibleError as refusal:
        return _within(case, optimizer, refusal.smallest_budget, options)


def _least_bytes(graph, too_little, limit):
    """Between what the largest op takes and what the search finds, by halves of the ratio.
    Gradients may be made again, so what takes least may be less than their sum."""
    enough = lowtide.plan(graph, too_little, time_limit=limit).smallest_budget
    while enough > NEAR * too_little:
        budget = int((too_little * enough) ** 0.5)
        answer = lowtide.plan(graph, budget, time_limit=limit)
        if answer.plan is None:
            too_little = budget
        enough = min(enough, answer.smallest_budget if answer.plan is None else budget)
    return enough


def _planned(session):
    """What the plan says of itself: bytes above what exists; extra time, its own and the certified
    least of any plan, as shares of a step that keeps everything; the bytes that an op needs at
    least with the gradients that exist by then; and those that a step without a limit keeps from
    its forward for its backward pass."""
    memory = session.memory()
    plans = [session.plan_for(region) for region in session.regions]
    kept = sum(op.cost for region in session.regions for op in region.priced.graph.ops)
    bounds = [plan.lower_bound for plan in plans]
    return {
        "planned_above_bytes": memory.planned_above,
        "floor_above_bytes": max(floor_with_gradients(region.priced.graph)
                                 for region in session.regions),
        "kept_bytes": sum(kept_between_passes(region.priced.graph) for region in session.regions),
        "planned_extra": sum(plan.cost for plan in plans) / kept - 1,
        "least_extra": None if None in bounds else sum(bounds) / kept - 1,
    }
