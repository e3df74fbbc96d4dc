"""Lowtide: a plan within a budget of bytes for all tensors of the process."""

import lowtide
from lowtide.pytorch.wrap import session_of

from . import LOWEST, UNLIMITED
from .floors import floor_with_gradients

NEAR = 1.02  # the ratio of a budget that does to one that does not, at the end


def prepare(case, optimizer, setting, **options):
    """`setting`: bytes, parameters, optimizer state and inputs included; a share of what a step
    takes that keeps everything ("60%"); UNLIMITED; or LOWEST, the least that a plan is found
    for. `options`: as of wrap()."""
    wrapped = _lowest(case, optimizer, options) if setting == LOWEST else _within(
        case, optimizer, None if setting == UNLIMITED else setting, options)

    def loss():
        return wrapped(*case.inputs)

    if options.get("mode") != "inductor":
        loss.planned = _planned(session_of(wrapped))
    return loss


def _within(case, optimizer, budget, options):
    return lowtide.wrap(case.module, case.inputs, budget=budget, optimizer=optimizer, **options)


def _lowest(case, optimizer, options):
    """Between what its largest op takes and what a step takes that keeps everything, by halves of
    the ratio. Gradients may be made again, so what takes least may be less than their sum."""
    wrapped = _within(case, optimizer, None, options)
    session = session_of(wrapped)
    existing, enough = session.memory().existing, session.memory().planned_above
    too_little = max(
        region.priced.floor_bytes - region.priced.resident_bytes for region in session.regions)
    while enough > NEAR * too_little:
        budget = int((too_little * enough) ** 0.5)
        try:
            wrapped, enough = _within(case, optimizer, existing + budget, options), budget
        except lowtide.InfeasibleError:
            too_little = budget
    return wrapped


def _planned(session):
    """What the plan says of itself: bytes above what exists; extra time, its own and the certified
    least of any plan, as shares of a step that keeps everything; and the bytes that an op needs at
    least with the gradients that exist by then."""
    memory = session.memory()
    plans = [session.plan_for(region) for region in session.regions]
    kept = sum(op.cost for region in session.regions for op in region.priced.graph.ops)
    bounds = [plan.lower_bound for plan in plans]
    return {
        "planned_above_bytes": memory.planned_above,
        "floor_above_bytes": max(floor_with_gradients(region.priced.graph)
                                 for region in session.regions),
        "planned_extra": sum(plan.cost for plan in plans) / kept - 1,
        "least_extra": None if None in bounds else sum(bounds) / kept - 1,
    }
