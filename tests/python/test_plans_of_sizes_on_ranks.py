"""Plans of a size on one of several ranks, which follow the largest size's."""

import json

import lowtide
import pytest
from lowtide.pytorch.budget.budget import Budget
from lowtide.pytorch.budget.settings import Settings
from lowtide.pytorch.common.notices import Notices
from lowtide.pytorch.plans.planning import PricedGraph
from lowtide.pytorch.plans.plans_of_size import PlansOfSizeOnRanks


def priced(size, types):
    """A chain of ops, each of which makes so many bytes of the value before."""
    names = ["given", *(f"value{number}" for number in range(len(types)))]
    tensors = [{"name": name, "bytes": size, "kind": "resident" if name == "given" else "value"}
               for name in names]
    ops = [{"name": f"op{number}", "type": kind, "inputs": [number], "outputs": [number + 1],
            "cost": 1} for number, kind in enumerate(types)]
    graph = lowtide.Graph.parse(json.dumps({
        "format": "lowtide-graph", "version": 1, "name": f"Words at length={size}",
        "cost_unit": "us", "tensors": tensors, "ops": ops, "outputs": [len(types)]}))
    return PricedGraph(graph, 3 * size, len(types), 2 * size, 0, 0, size)


def plans(size, types, leading=(100, ("a", "b"))):
    largest = priced(*leading)
    plan = lowtide.plan(largest.graph, 10_000, time_limit=0.1).plan
    return PlansOfSizeOnRanks(priced(size, types), Settings(Budget.parse(None), None),
                              lambda: (largest, plan), 0, 0, Notices())


def test_a_size_runs_the_order_of_the_largest():
    found = plans(60, ("a", "b"))
    assert [action[0] for action in found.within(10_000).actions].count("run") == 2
    assert found.smallest().arena_bytes <= 10_000


def test_a_size_without_room_is_to_be_in_the_range():
    with pytest.raises(lowtide.InfeasibleError, match="has 64 B, .* widen the range"):
        plans(200, ("a", "b")).within(64)


@pytest.mark.parametrize("budget", [None, 10_000])
@pytest.mark.parametrize("types", [("a", "b", "a"), ("b", "a")])
def test_a_size_with_other_ops_is_told_apart(budget, types):
    with pytest.raises(lowtide.InfeasibleError, match="has other ops than the largest size"):
        plans(60, types).within(budget)
