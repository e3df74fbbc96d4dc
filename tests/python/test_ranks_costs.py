"""Costs of collectives: fits of made-up times, files, and a measurement of real ranks."""

import json
import math
import random

import lowtide
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowtide.pytorch.ranks.communication_costs import COLLECTIVES, fitted_costs
from lowtide.pytorch.ranks.link_fit import Link, Sample, fitted_link
from rank_processes import values_of_ranks

SIZES = [1024 * 4**power for power in range(8)]

latencies = st.floats(1e-6, 1e-2)
bandwidths = st.floats(1e6, 1e12)


def close(link, latency, bandwidth, tolerance=1e-6):
    """By the times: a part of them that is lost in rounding may have any value."""
    return all(link.seconds(size) == pytest.approx(latency + size / bandwidth, rel=tolerance)
               for size in SIZES)


@settings(deadline=None)
@given(latencies, bandwidths)
def test_times_of_a_link_give_the_link(latency, bandwidth):
    link = fitted_link([Sample(size, latency + size / bandwidth) for size in SIZES])
    assert close(link, latency, bandwidth)
    assert link.latency >= 0 and link.bandwidth > 0


@settings(deadline=None)
@given(latencies, bandwidths, st.sets(st.sampled_from(SIZES)), st.floats(2, 1000))
def test_some_times_that_are_far_off_change_nothing(latency, bandwidth, late, factor):
    """Of three times for each size, one may be."""
    samples = [Sample(size, (latency + size / bandwidth) * (factor if size in off else 1))
               for off in (late, (), ()) for size in SIZES]
    assert close(fitted_link(samples), latency, bandwidth)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(SIZES), st.floats(1e-6, 10)), min_size=2, max_size=12))
def test_whatever_is_measured_no_figure_is_negative(pairs):
    samples = [Sample(*pair) for pair in pairs]
    if len({sample.bytes for sample in samples}) < 2:
        return
    link = fitted_link(samples)
    assert 0 <= link.latency < math.inf and link.bandwidth > 0
    assert not math.isnan(link.bandwidth)


@settings(deadline=None)
@given(latencies, bandwidths)
def test_least_squares_are_the_best_of_their_surroundings(latency, bandwidth):
    """With times that are off by 1 part in 100 at random, so that none is an outlier by far."""
    draw = random.Random(f"{latency} {bandwidth}")
    samples = [Sample(size, (latency + size / bandwidth) * draw.choice((0.99, 1.01)))
               for size in SIZES * 3]
    link = fitted_link(samples)

    def squares(link):
        return sum(sample.deviation(link)**2 for sample in samples)

    for other in (Link(link.latency * 1.001, link.bandwidth),
                  Link(link.latency * 0.999, link.bandwidth),
                  Link(link.latency, link.bandwidth * 1.001),
                  Link(link.latency, link.bandwidth * 0.999)):
        assert squares(link) <= squares(other) * (1 + 1e-9)


@settings(deadline=None)
@given(latencies, bandwidths, st.integers(2, 64))
def test_costs_of_a_ring_are_recovered(latency, bandwidth, ranks):
    """Each collective by its traffic, and one link for all of them."""
    parts = {"allreduce": 2, "reduce_scatter": 1, "allgather": 1, "broadcast": 1}
    times = {name: [(size, latency + part * (ranks - 1) / ranks * size / bandwidth)
                    for size in SIZES] for name, part in parts.items()}
    costs = fitted_costs(ranks, "gloo", times)
    for name, pairs in times.items():
        for size, seconds in pairs:
            assert costs.seconds(name, size) == pytest.approx(seconds, rel=1e-6)
            assert costs.link.seconds(parts[name] * (ranks - 1) / ranks * size) == pytest.approx(
                seconds, rel=1e-6)


def test_a_file_goes_round(tmp_path):
    links = {"allreduce": Link(0., math.inf)}
    costs = lowtide.CommunicationCosts(4, "gloo", Link(1e-4, 2e9), links)
    costs.save(tmp_path / "costs.json")
    assert lowtide.CommunicationCosts.load(tmp_path / "costs.json") == costs
    document = json.loads((tmp_path / "costs.json").read_text())
    assert (document["latency"], document["bandwidth"]) == (1e-4, 2e9)
    assert document["collectives"]["allreduce"] == {"latency": 0, "bandwidth": None}


def test_one_rank_sends_nothing_and_a_collective_must_be_known():
    costs = lowtide.CommunicationCosts(1, "gloo", Link(1., 1.), {})
    assert costs.seconds("allreduce", 10) == 0
    with pytest.raises(lowtide.InputError, match="collective must be one of allreduce"):
        costs.seconds("gather", 10)
    with pytest.raises(lowtide.InputError, match="bytes must be a whole number"):
        costs.seconds("allgather", -1)


@pytest.mark.parametrize("change, message", [
    ({"format": "x"}, "not a lowtide-collectives document"), ({"version": 2}, "version 2"),
    ({"ranks": 0}, "ranks must be"), ({"backend": 3}, "backend must be"),
    ({"latency": -1}, "latency must be"), ({"latency": True}, "latency must be"),
    ({"bandwidth": 0}, "bandwidth must be"), ({"bandwidth": "2GB"}, "bandwidth must be"),
    ({"collectives": {"gather": {}}}, "collectives must be"), ({"collectives": 3}, "collectives"),
    ({"collectives": {"allgather": {}}}, "collectives.allgather.latency must be"),
])
def test_a_wrong_file_is_refused_by_its_field(tmp_path, change, message):
    path = tmp_path / "costs.json"
    document = {"format": "lowtide-collectives", "version": 1, "ranks": 2, "backend": "gloo",
                "latency": 1e-4, "bandwidth": 1e9, "collectives": {}}
    path.write_text(json.dumps(document))
    lowtide.CommunicationCosts.load(path)
    path.write_text(json.dumps({**document, **change}))
    with pytest.raises(lowtide.InputError, match=message) as caught:
        lowtide.CommunicationCosts.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff"])
def test_a_damaged_file_is_refused(tmp_path, text):
    (tmp_path / "costs.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(lowtide.InputError, match="costs.json"):
        lowtide.CommunicationCosts.load(tmp_path / "costs.json")


def measured():
    with lowtide.Communicator.create() as comm:
        costs = comm.measure(sizes=(1024, 64 * 1024, 1 << 20), repeats=3)
        with pytest.raises(lowtide.InputError, match="2 sizes or more"):
            comm.measure(sizes=(5, 5))
        return costs


@pytest.mark.cpu_only("the ranks of these tests are on the CPU")
def test_ranks_measure_one_and_the_same(tmp_path):
    first, second = values_of_ranks(tmp_path, measured, 2)
    assert first == second
    assert (first.ranks, first.backend, set(first.links)) == (2, "gloo", set(COLLECTIVES))
    for name in COLLECTIVES:
        assert 0 < first.seconds(name, 1 << 10) <= first.seconds(name, 1 << 24)
