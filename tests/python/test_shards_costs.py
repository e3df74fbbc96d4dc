"""What other ranks add to a step: how it is measured, and what of it counts in a plan."""

import json

import lowtide
import pytest
import torch
from lowtide.pytorch.shards import measured_costs
from lowtide.pytorch.shards.collectives import GATHER_START, GATHER_WAIT, IN_FLIGHT, WAITS
from lowtide.pytorch.shards.costs import CollectiveCost, CollectiveCosts, LineOfBytes
from lowtide.pytorch.shards.group import Group
from lowtide.pytorch.shards.step_time import overlapped_cost
from shards_cases import mesh_of

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")

NOTHING = LineOfBytes(0.0, 0.0)
BYTES = 4000


def test_short_times_count_and_long_ones_are_others_work():
    fewest = measured_costs._FEWEST_RUNS
    quiet = [100 + run for run in range(fewest)]
    busy = [100, 110, 120, *range(1000, 1000 * (fewest - 2), 1000)]
    are_enough = measured_costs._some_are_undisturbed
    assert are_enough([[time, 90] for time in quiet])
    assert not are_enough([[time, 90] for time in quiet[1:]])
    assert not are_enough([[90, time] for time in busy])
    assert are_enough([[90, time] for time in [*busy, 130, 140]])
    assert are_enough([[90, time] for time in [*busy, 10**9]])  # for long enough
    assert measured_costs._usual_of(quiet) == 100 + fewest // 2
    assert measured_costs._usual_of(busy) == 110


@pytest.mark.parametrize("line", [LineOfBytes(2e-4, 1e-9, 3e-5), LineOfBytes(1e-3, 0.0, 0.0)])
def test_a_line_is_found_from_three_points(line):
    sizes = [3000, 900_000]
    several = measured_costs._SEVERAL
    found = measured_costs._line([line.of(sizes[0]), line.of(several * sizes[0], several),
                                  line.of(sizes[1])], sizes)
    for name in ("latency", "per_byte", "per_tensor"):
        assert getattr(found, name) == pytest.approx(getattr(line, name), abs=1e-12)


def gathers(number):
    """Gathers that begin one after the other, ops of 100 us, and then a wait for each."""
    tensors = [{"name": "shard", "bytes": BYTES // 2, "kind": "resident"}]
    ops = []

    def op(kind, inputs, cost, made_bytes):
        ops.append({"name": f"op{len(ops)}", "type": kind, "inputs": inputs, "cost": cost,
                    "outputs": [len(tensors)]})
        tensors.append({"name": f"t{len(tensors)}", "bytes": made_bytes, "kind": "value"})
        return len(tensors) - 1

    pending = [op(GATHER_START, [0], 1.0, BYTES) for _ in range(number)]
    op("work", [0], 100.0, 4)
    whole = [op(GATHER_WAIT, [one], 1.0, BYTES) for one in pending]
    return lowtide.Graph.parse(json.dumps({
        "format": "lowtide-graph", "version": 1, "name": "gathers", "cost_unit": "us",
        "tensors": tensors, "ops": ops, "outputs": [*whole, 1 + number]}))


@pytest.mark.parametrize("number, microseconds, beside, took", [
    (1, 80.0, 0.0, 0.0),     # hidden by the other op
    (2, 80.0, 0.0, 58.0),    # one after the other: the second ends later than the op
    (2, 80.0, 80.0, 160.0),  # the processors are taken: nothing is hidden
    (2, 80.0, 30.0, 60.0),   # ops take 60 us longer, and hide the rest
    (1, 80.0, 200.0, 80.0),  # beside ops it takes no longer than alone
])
def test_what_no_op_hides_of_gathers_counts(number, microseconds, beside, took):
    costs = CollectiveCosts({GATHER_START: CollectiveCost(
        LineOfBytes(1e-6 * microseconds, 0.0), LineOfBytes(1e-6 * beside, 0.0))})
    graph = costs.added_to(gathers(number))
    plan = lowtide.plan(graph, "100%", "keep-all").plan
    assert plan.cost == pytest.approx(100 + 2 * number + number * microseconds)
    assert overlapped_cost(graph, plan, costs) == pytest.approx(100 + 2 * number + took)


def test_ops_of_ranks_that_share_processors_take_longer():
    costs = CollectiveCosts({GATHER_START: CollectiveCost(LineOfBytes(1e-5, 1e-9), NOTHING)}, 1.5,
                            meeting=2e-4, per_parameter=1e-5)
    found = [op.cost for op in costs.added_to(gathers(1)).ops]
    assert found == pytest.approx([1.5 + 10 + BYTES * 1e-3, 150.0, 1.5])
    assert costs.outside(7) == pytest.approx(2 * 200 + 7 * 10)


def measured(rank, ranks):
    group = Group(mesh_of(ranks))
    found = measured_costs.costs_of(group, "cpu")
    assert measured_costs.costs_of(Group(mesh_of(ranks)), "cpu") is found
    assert len(IN_FLIGHT) == 0 and IN_FLIGHT.is_connected
    return found


def test_all_ranks_have_the_same_costs(two):
    first, second = two.run(measured, 2)
    assert first == second
    assert set(first.by_start) == set(WAITS)
    assert first.crowding >= 1.0 and first.meeting > 0.0 and first.per_parameter > 0.0
    for cost in first.by_start.values():
        assert cost.of(1 << 20, 2) > 0.0
        assert 0.0 <= cost.hidden(1 << 20, 2) <= cost.of(1 << 20, 2)
    assert torch.isfinite(torch.tensor([cost.of(1, 1) for cost in first.by_start.values()])).all()
