"""What other ranks add to a step: how it is measured, and what of it counts in a plan."""

import json

import lowtide
import pytest
import torch
from lowtide.pytorch.shards import measured_costs
from lowtide.pytorch.shards.collectives import GATHER_START, GATHER_WAIT, IN_FLIGHT, WAITS
from lowtide.pytorch.shards.costs import CollectiveCost, CollectiveCosts, Crowding, LineOfBytes
from lowtide.pytorch.shards.group import Group
from lowtide.pytorch.shards.step_time import overlapped_cost
from lowtide.pytorch.wrap import session_of
from shards_cases import mesh_of, wrapped

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


def coalesced_by(message, copied, coalesced_message=0.0):
    """The bytes up to which tensors are coalesced, where a message takes processors so long, and a
    byte so long to copy."""
    def times(of_message, of_byte):
        messages = measured_costs._SEVERAL - 1
        further_bytes = measured_costs._MANY_BYTES - measured_costs._FEW_BYTES
        return 1e-3, 1e-3 + messages * of_message, 2e-3 + further_bytes * of_byte

    return measured_costs._coalesced_bytes({
        (name, place, True): measured_costs._Times(1.0, 0.25 * taken, 0.75 * taken)
        for apart, together in measured_costs._COALESCED.items()
        for name, found in ((apart, times(message, 0.0)),
                            (together, times(coalesced_message, copied)))
        for place, taken in enumerate(found)})


def test_what_takes_longer_to_copy_than_to_send_is_not_coalesced():
    assert coalesced_by(1e-4, 1e-9) == pytest.approx(100_000, rel=1e-6)
    assert coalesced_by(1e-4, 4e-9) == pytest.approx(25_000, rel=1e-6)
    assert coalesced_by(1e-4, 1e-9, coalesced_message=2e-4) == 0
    assert coalesced_by(1e-4, 0.0) >= 100_000_000  # a copy was too short to be seen
    assert measured_costs._coalesced_bytes({}) == 0  # where tensors are never exchanged


@pytest.mark.parametrize("ranks_per_processor, taken", [
    (2 / 4, 3.0),   # each rank's other threads have a processor of their own
    (2 / 3, 3.5),   # one for two ranks
    (1.0, 4.0),     # none
    (2.0, 8.0)])    # each rank waits for another one
def test_threads_without_a_processor_take_it_from_ops(ranks_per_processor, taken):
    times = measured_costs._Times(10.0, 3.0, 1.0)
    assert measured_costs._taken_from_ops(times, ranks_per_processor) == pytest.approx(taken)


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
    costs = CollectiveCosts({GATHER_START: CollectiveCost(LineOfBytes(1e-5, 1e-9), NOTHING)},
                            Crowding(computing=1.5), meeting=2e-4, per_parameter=1e-5)
    found = [op.cost for op in costs.added_to(gathers(1)).ops]
    assert found == pytest.approx([1.5 + 10 + BYTES * 1e-3, 150.0, 1.5])
    assert costs.outside(7) == pytest.approx(2 * 200 + 7 * 10)


@pytest.mark.parametrize("moved_bytes, longer", [
    (0, 1.1), (500_000, 1.3), (1_000_000, 1.5),
    (9_000_000, 1.5)])  # of a table, an op may read a few rows
def test_ops_that_share_the_way_to_memory_take_longer_by_their_bytes(moved_bytes, longer):
    crowding = Crowding(computing=1.1, streaming=1.5, bytes_per_second=1e9)
    assert crowding.of(1e-3, moved_bytes) == pytest.approx(longer)
    assert crowding.of(0.0, moved_bytes) == 1.0


def test_an_op_that_streams_is_priced_by_what_it_reads_and_writes():
    costs = CollectiveCosts({}, Crowding(1.0, 2.0, BYTES / 2 / 200e-6))
    gather, work, wait = (op.cost for op in costs.added_to(gathers(1)).ops)
    assert gather == pytest.approx(2.0) and wait == pytest.approx(2.0)
    assert work == pytest.approx(200.0)  # reads the shard, which alone would take longer


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
    crowding = first.crowding
    assert crowding.computing >= 1.0 and crowding.streaming >= 1.0
    assert 0.0 < crowding.bytes_per_second < 1e13
    assert first.meeting > 0.0 and first.per_parameter > 0.0
    assert first.coalesced_bytes >= 0
    for cost in first.by_start.values():
        assert cost.of(1 << 20, 2) > 0.0
        assert 0.0 <= cost.hidden(1 << 20, 2) <= cost.of(1 << 20, 2)
    assert torch.isfinite(torch.tensor([cost.of(1, 1) for cost in first.by_start.values()])).all()


def overheads(rank, sharding):
    """Of plans without a budget, and with one."""
    found = []
    for budget in (None, "80%"):
        model, _ = wrapped("gpt", rank, 2, sharding=sharding, budget=budget)
        session = session_of(model)
        found.append(session.figures.predicted().overhead)
        assert session.figures.predicted().seconds == session.figures.predicted_seconds()
    return found


@pytest.mark.parametrize("sharding", ["none", "full"])
def test_the_overhead_is_over_a_step_that_keeps_all_with_the_same_overlap(two, sharding):
    """Of collectives that run while ops do, and not of all that they take alone."""
    for without_budget, with_one in two.run(overheads, sharding):
        assert without_budget == pytest.approx(0.0, abs=1e-3)
        assert with_one >= 0.0
