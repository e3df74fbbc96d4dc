"""Plans that were found stay answers: more memory or another start never gives a worse one."""

import lowtide
import pytest
import torch
from lowtide.pytorch.plans.plan_store import PlanStore
from lowtide.pytorch.wrap import session_of
from torch import nn
from wrap_cases import built

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


def layers():
    return nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.Tanh())])


@pytest.fixture
def graph():
    wrapped = lowtide.wrap(built(layers), torch.randn(512, 64), time_limit=1, cache=False)
    return session_of(wrapped).regions[0].priced.graph


def store_of(graph):
    return PlanStore(graph, None, {})


def plans_of(graph, *shares):
    return [lowtide.plan(graph, share, time_limit=1).plan for share in shares]


def test_a_budget_is_answered_by_the_cheapest_plan_that_fits(graph):
    small, large = plans_of(graph, "75%", "90%")
    assert small.cost > large.cost and small.arena_bytes < large.arena_bytes
    store = store_of(graph)
    assert store.cheapest(1 << 40) is None
    store.keep(small)
    assert store.cheapest(1 << 40).cost == small.cost
    assert store.cheapest(small.arena_bytes - 1) is None
    store.keep(large)
    assert store_of(graph).cheapest(1 << 40).cost == large.cost
    assert store.cheapest(large.arena_bytes - 1).cost == small.cost


def test_only_plans_that_none_beats_are_kept(graph):
    small, large = plans_of(graph, "75%", "90%")
    store = store_of(graph)
    worse = lowtide.plan(graph, large.arena_bytes, "chen-sqrt").plan
    for plan in (worse, small, large):
        store.keep(plan)
    for budget in (small.arena_bytes, large.arena_bytes, 1 << 40):
        kept = store.cheapest(budget)
        assert all(kept.cost <= plan.cost for plan in (worse, small, large)
                   if plan.arena_bytes <= budget)


def test_a_search_that_the_clock_cut_is_not_the_last_one(graph):
    store = store_of(graph)
    assert store.searched_seconds(7) is None
    store.note_search(7, 0.0)
    assert store_of(graph).searched_seconds(7) == 0.0
    store.note_search(7, 2.0)
    store.note_search(7, 1.0)
    assert store_of(graph).searched_seconds(7) == 2.0


def test_what_a_smaller_budget_was_given_is_given_to_a_larger_one():
    x = torch.randn(512, 64)
    costs = []
    for share in ("80%", "85%", "90%", "95%"):
        wrapped = lowtide.wrap(built(layers), x, budget=share, optimizer="none", time_limit=0.5)
        region = session_of(wrapped).regions[0]
        costs.append(session_of(wrapped).plan_for(region).cost)
    assert costs == sorted(costs, reverse=True)


def test_refresh_plans_anew():
    said = []
    x = torch.randn(512, 64)
    for cache in (True, True, "refresh"):
        said.append([])
        lowtide.wrap(built(layers), x, budget="85%", optimizer="none", time_limit=1, cache=cache,
                     report=said[-1].append)
    planned = [any(line.startswith("planning") for line in lines) for lines in said]
    assert not planned[1] and planned[2]
