"""Plans whose collectives run while other ops do: same addresses, and no memory given away."""

import contextlib
import dataclasses
import json
import random

import lowtide
import pytest
import torch
from lowtide import _core, _runtime
from lowtide.pytorch.budget.settings import Settings
from lowtide.pytorch.dynamo.joint_trace import trace_joint
from lowtide.pytorch.shards.collectives import (
    COALESCED_EXCHANGE_START,
    COALESCED_GATHER_START,
    EXCHANGE_START,
    GATHER_START,
    IN_FLIGHT,
    WAITS,
)
from lowtide.pytorch.shards.costs import CollectiveCost, CollectiveCosts, LineOfBytes
from lowtide.pytorch.shards.group import GROUPS
from lowtide.pytorch.shards.overlap import overlapped, require_waits
from lowtide.pytorch.shards.sharding import graph_layout
from lowtide.pytorch.shards.step_time import overlapped_cost
from shards_cases import CASES, StandInGroup, batches, made
from sweep import sweep

pytestmark = pytest.mark.cpu_only("Gloo sends memory of the host")


@contextlib.contextmanager
def group_of(size):
    GROUPS["stand-in"] = StandInGroup(size)
    try:
        yield GROUPS["stand-in"]
    finally:
        del GROUPS["stand-in"]


def captured_for(case, ranks, sharding, bucket_bytes, fused_update=None, coalesced_bytes=0):
    """The graph of a step, with the costs of collectives."""
    model, batch = made(case), batches(case, 0)[0]
    layout = graph_layout(model.named_parameters(remove_duplicate=False), ranks, sharding,
                          costs_of_collectives(1.0))
    layout = dataclasses.replace(layout, bucket_bytes=bucket_bytes, coalesced_bytes=coalesced_bytes,
                                 exchange_bytes=max(layout.exchange_bytes, 2 * bucket_bytes))
    settings = Settings(layout=layout, stash=None, fused_update=fused_update)
    found = []

    def backend(graph, inputs):
        found.append(trace_joint(graph, inputs, case, lambda run, given: run(*given), 1, settings))
        return graph.forward

    torch.compile(model, backend=backend, fullgraph=True)(*batch)
    torch._dynamo.reset()
    with IN_FLIGHT.unconnected():
        measured = _runtime.profiled(found[0].captured.graph)
    return layout.costs.added_to(measured)


def distances(graph, plan):
    """By collective, how many actions lie between its start and its wait."""
    ops, begun, found = graph.ops, {}, []
    for place, (verb, index, *_) in enumerate(plan.actions):
        if verb == "run" and ops[index].type in WAITS:
            begun[ops[index].outputs[0]] = place
        elif verb == "run" and ops[index].type in WAITS.values():
            # A wait that runs again copies what is there.
            found.append(place - begun.pop(ops[index].inputs[0], place))
    return found


def costs_of_collectives(busy):
    """``busy``: the part of the time alone that is lost beside ops, too."""
    return CollectiveCosts({start: CollectiveCost(
        LineOfBytes(1e-5, 1e-9, 1e-6), LineOfBytes(busy * 1e-5, busy * 1e-9, busy * 1e-6))
        for start in WAITS})


def require_times_of_lanes(graph, plan, found):
    """What collectives take and ops do not lack is hidden, but no more than there are ops, and no
    less where they begin earlier and are waited for later."""
    assert overlapped_cost(graph, found, costs_of_collectives(1.0)) == pytest.approx(found.cost)
    costs = costs_of_collectives(0.0)
    on_lane = sum(1e6 * costs.by_start[graph.ops[index].type].of(
        graph.tensors[graph.ops[index].outputs[0]].bytes, len(graph.ops[index].inputs))
        for verb, index, *_ in found.actions if verb == "run" and graph.ops[index].type in WAITS)
    hidden = overlapped_cost(graph, found, costs)
    assert max(on_lane, found.cost - on_lane) * (1 - 1e-9) <= hidden
    assert hidden <= overlapped_cost(graph, plan, costs) * (1 + 1e-9) <= plan.cost * (1 + 2e-9)


UPDATES = [None, lowtide.FusedUpdate(), lowtide.FusedUpdate(max_norm=1.0)]
#: Of a bucket, and of the tensors in it that go in one message.
BUCKETS = (0, 0), (4096, 0), (4096, 4096), (1 << 20, 4096), (1 << 20, 1 << 20)
CASES_OF_PLANS = [(case, ranks, sharding, buckets, updates) for case in CASES for ranks in (2, 4)
                  for sharding in ("none", "full") for buckets in BUCKETS for updates in UPDATES]


@pytest.mark.parametrize("case, ranks, sharding, buckets, updates", sweep(
    CASES_OF_PLANS, usual=[("gpt", 2, "full", BUCKETS[3], None),
                           ("layers", 4, "full", BUCKETS[0], UPDATES[1]),
                           ("convolutions", 2, "none", BUCKETS[1], None)]))
def test_collectives_overlap_other_ops(case, ranks, sharding, buckets, updates):
    with group_of(ranks) as group:
        graph = captured_for(case, group, sharding, buckets[0], updates, buckets[1])
    keep_all = lowtide.plan(graph, "100%", "keep-all").plan
    smallest = lowtide.plan(graph, 1000, time_limit=0.3).smallest_budget
    before = after = 0
    for share in (0.0, 0.2, 0.6, 1.0):
        budget = int(smallest + share * (keep_all.arena_bytes - smallest))
        plan = lowtide.plan(graph, budget, time_limit=0.3).plan
        found = overlapped(graph, plan, costs_of_collectives(0.0))
        require_waits(graph, found)
        assert lowtide.verify(graph, found, budget) is None
        assert found.arena_bytes == plan.arena_bytes
        # In another order the same costs have another rounding error.
        assert found.cost <= plan.cost * (1 + 1e-12)
        assert len(found.actions) <= len(plan.actions)
        require_times_of_lanes(graph, plan, found)
        before, after = before + sum(distances(graph, plan)), after + sum(distances(graph, found))
    assert after > before


#: In seconds and bytes per second, as of a slow disk beside ops that take microseconds.
SLOW, FAST = [((1e-6, rate), (1e-6, rate), shared) for rate, shared in ((2e8, True), (1e10, False))]
PLACES = [(SLOW, None), (FAST, None), (FAST, SLOW)]
CASES_OF_COPIES = [(case, sharding, buckets, places) for case in CASES
                   for sharding in ("none", "full") for buckets in BUCKETS for places in PLACES]


@pytest.mark.parametrize("case, sharding, buckets, places", sweep(
    CASES_OF_COPIES, usual=[("gpt", "full", BUCKETS[3], PLACES[0]),
                            ("layers", "full", BUCKETS[0], PLACES[2]),
                            ("convolutions", "none", BUCKETS[1], PLACES[1])]))
def test_collectives_overlap_copies(case, sharding, buckets, places):
    """Of plans that move values, which end no later for that on all lanes."""
    with group_of(2) as group:
        graph = captured_for(case, group, sharding, buckets[0], None, buckets[1])
    keep_all = lowtide.plan(graph, "100%", "keep-all").plan
    first, second = places
    copies = overlaps = 0
    for share in (0.7, 0.85, 0.9, 0.97):
        budget = int(share * keep_all.arena_bytes)
        plan = _core.plan_moving(graph, budget, "offload", (first, None),
                                 second and (second, None), 0.3, False).plan
        if plan is None:
            continue
        copies += sum(verb == "offload" for verb, *_ in plan.actions)
        for busy in (0.0, 1.0):
            costs = costs_of_collectives(busy)
            found = overlapped(graph, plan, costs)
            require_waits(graph, found)
            assert lowtide.verify(graph, found, budget) is None
            assert found.arena_bytes == plan.arena_bytes
            assert found.slower_places == plan.slower_places
            assert overlapped_cost(graph, found, costs) <= (
                overlapped_cost(graph, plan, costs) * (1 + 1e-9))
            overlaps += distances(graph, found) != distances(graph, plan)
        assert overlapped_cost(graph, found, costs) == pytest.approx(found.cost)
    assert copies > 0 and overlaps > 0


def moved(plan, source, target):
    """The plan with one action elsewhere, without addresses."""
    document = json.loads(plan.format())
    actions = document["actions"]
    actions.insert(target, actions.pop(source))
    del document["offsets"], document["arena_bytes"]
    return lowtide.Plan.parse(json.dumps(document))


def sent(graph, start):
    """The bytes of what the collectives of a type are given, in an order."""
    return sorted(graph.tensors[tensor].bytes for op in graph.ops if op.type == start
                  for tensor in op.inputs)


@pytest.mark.parametrize("case, ranks", sweep(
    [(case, ranks) for case in CASES for ranks in (2, 3)], usual=[("gpt", 3)]))
def test_small_tensors_go_in_one_message(case, ranks):
    """Whatever is coalesced, the same tensors are sent."""
    with group_of(ranks) as group:
        apart, some, every = (captured_for(case, group, "full", 1 << 20, coalesced_bytes=coalesced)
                              for coalesced in (0, 4096, 1 << 20))
    for plain, coalesced in ((GATHER_START, COALESCED_GATHER_START),
                          (EXCHANGE_START, COALESCED_EXCHANGE_START)):
        assert sent(apart, coalesced) == sent(every, plain) == []
        assert sent(apart, plain) == sent(every, coalesced) != []
        assert sorted(sent(some, plain) + sent(some, coalesced)) == sent(apart, plain)
    parts = sent(some, COALESCED_GATHER_START)
    assert 0 < len(parts) < len(sent(every, COALESCED_GATHER_START))
    assert max(parts) < min(sent(some, GATHER_START))


def test_memory_that_is_given_away_too_early_is_seen():
    """Of random places for waits, those behind the end of what the collective uses are refused."""
    with group_of(2) as group:
        graph = captured_for("gpt", group, "full", 4096)
    plan = lowtide.plan(graph, "100%", "keep-all").plan
    require_waits(graph, plan)
    chosen, refused = random.Random(5), 0
    waits = [place for place, (verb, index, *_) in enumerate(plan.actions)
             if verb == "run" and graph.ops[index].type in WAITS.values()]
    for wait in waits:
        op = graph.ops[plan.actions[wait][1]]
        ends = [place for place, (verb, index, *_) in enumerate(plan.actions)
                if verb == "free" and index in op.inputs and place > wait]
        for end in ends:
            with pytest.raises(lowtide.Error):
                require_waits(graph, moved(plan, wait, chosen.randint(end, len(plan.actions) - 1)))
            refused += 1
    assert refused > 0


def test_a_copy_of_what_is_in_flight_is_seen():
    graph, plan = gathered_twice()
    document = json.loads(plan.format())
    del document["offsets"], document["arena_bytes"]
    document["version"] = 2
    document["actions"][1:1] = [["offload", 1], ["wait", 1]]
    with pytest.raises(lowtide.Error, match="that the collective uses which makes pending"):
        require_waits(graph, lowtide.Plan.parse(json.dumps(document)))


def gathered_twice():
    """A graph whose wait may be written over what it waits for, and a plan that gathers again
    elsewhere."""
    sizes = {"shard": 64, "pending": 128, "whole": 128, "first": 64, "second": 64}
    tensors = [{"name": name, "bytes": size, "kind": "resident" if name == "shard" else "value"}
               for name, size in sizes.items()]
    start, wait = next(iter(WAITS.items()))
    ops = [{"type": start, "inputs": [0], "outputs": [1]},
           {"type": wait, "inputs": [1], "outputs": [2], "inplace": [[0, 0]]},
           {"type": "read", "inputs": [2], "outputs": [3]},
           {"type": "read", "inputs": [2, 3], "outputs": [4]}]
    graph = {"format": "lowtide-graph", "version": 1, "name": "twice", "tensors": tensors,
             "ops": [{"name": f"op{place}", "cost": 1.0} | op for place, op in enumerate(ops)],
             "outputs": [4]}
    plan = {"format": "lowtide-plan", "version": 1, "graph": "twice", "strategy": "by hand",
            "peak_bytes": 320, "cost": 6.0, "arena_bytes": 448,
            "actions": [["run", 0], ["run", 1, [0]], ["run", 2], ["free", 2], ["run", 0],
                        ["run", 1, [0]], ["run", 3], ["free", 2], ["free", 3]],
            "offsets": [[0, [["t", 1, 0]]], [2, [["t", 3, 256]]], [4, [["t", 1, 128]]],
                        [6, [["t", 4, 320]]]]}
    return lowtide.Graph.parse(json.dumps(graph)), lowtide.Plan.parse(json.dumps(plan))


def test_a_second_gather_starts_behind_the_wait_for_the_first():
    graph, plan = gathered_twice()
    assert lowtide.verify(graph, plan) is None
    found = overlapped(graph, plan, costs_of_collectives(0.0))
    assert [action[1] for action in found.actions if action[0] == "run"] == [0, 1, 0, 2, 1, 3]
