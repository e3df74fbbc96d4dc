"""Ranges of sizes (``dynamic_shapes``): planned at the largest, checked at every size, eager's bits
and no search afterwards."""

import gc
import json
import warnings
import weakref

import lowtide
import pytest
import torch
from lowtide.pytorch.autograd import stash_choice
from lowtide.pytorch.plans import graph_plans
from lowtide.pytorch.plans.same_addresses import at_same_addresses
from lowtide.pytorch.wrap import session_of
from range_cases import (
    BATCH,
    LENGTHS,
    Images,
    Layers,
    built,
    case,
    layers,
    losses_of,
    same_bits,
    trained,
    transformer,
    wrapped_for,
)
from sweep import sweep
from torch import nn
from torch.export import Dim
from torch_memory import profiled

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


@pytest.fixture
def searches(monkeypatch):
    """The planner's searches, as they are counted."""
    found = []
    search = graph_plans.GraphPlans._search

    def counted(self, *arguments):
        found.append(arguments)
        return search(self, *arguments)

    monkeypatch.setattr(graph_plans.GraphPlans, "_search", counted)
    return found


KINDS = ("layers", "transformer", "images")
CASES = [(kind, seed) for kind in KINDS for seed in range(12)]
USUAL = [("layers", 0), ("transformer", 2), ("images", 0)]


@pytest.mark.parametrize(("kind", "seed"), sweep(CASES, USUAL))
def test_every_size_trains_within_the_budget_without_a_search(kind, seed, searches):
    make, least, most, places, rng = case(kind, seed)
    wrapped = wrapped_for(make, most, rng.choice([0.0, 0.6, 0.8, 1.0]), dynamic_shapes=places)
    sizes = [least, most, *(rng.randint(least, most) for _ in range(3)), least + 1, most - 1]
    rng.shuffle(sizes)
    plain = trained(built(make), sizes)
    searches.clear()
    held = sum(tensor.nbytes for tensor in wrapped.state_dict().values())
    found = trained(wrapped, sizes)
    assert same_bits(found, plain)
    for size in rng.sample(sizes, 2):
        peak, _, _ = profiled(lambda size=size: losses_of(wrapped, [size]) and None)
        assert peak <= wrapped.memory.budget - held
    assert not searches


def cost_with_stashes(attempt):
    return attempt.free.cost + (0 if attempt.region.stashes else 1e9)


@pytest.mark.parametrize("seed", sweep(range(12), usual=[1]))
def test_sizes_whose_values_are_too_small_have_the_stashes_of_the_largest(seed, monkeypatch):
    """Values of a few bytes are not held in fewer, but where all sizes have one graph."""
    monkeypatch.setattr(stash_choice, "_free_cost", cost_with_stashes)
    make, least, most, places, rng = case("transformer", seed)
    wrapped = wrapped_for(make, most, rng.choice([0.0, 0.6, 0.8]), dynamic_shapes=places)
    sizes = [least, most, rng.randint(least, most)]
    assert same_bits(trained(wrapped, sizes), trained(built(make), sizes))
    if most >= 48:  # draws of the largest take more bytes than are left alone
        assert {region.stash_names for region in session_of(wrapped).regions} - {()}


def test_the_largest_size_is_planned_before_the_first_step():
    model = built(layers)
    with pytest.raises(lowtide.InfeasibleError, match="at batch=40, the largest .*smallest budget"
                       ) as caught:
        lowtide.wrap(model, model.inputs(3), budget=12_000, optimizer="sgd", time_limit=0.5,
                     dynamic_shapes=BATCH)
    wrapped = lowtide.wrap(model, model.inputs(3), budget=caught.value.smallest_budget,
                           optimizer="sgd", time_limit=0.5, dynamic_shapes=BATCH)
    sizes = [3, 40, 39]
    assert same_bits(trained(wrapped, sizes), trained(built(layers), sizes))


def test_without_example_inputs_the_first_call_plans_all(searches):
    wrapped = lowtide.wrap(built(layers), budget="70%", optimizer="sgd", time_limit=0.5,
                           dynamic_shapes=BATCH)
    first = trained(wrapped, [5])
    assert same_bits(first, trained(built(layers), [5]))
    searches.clear()
    wrapped.load_state_dict(built(layers).state_dict())
    sizes = [40, 7, 2, 33]
    assert same_bits(trained(wrapped, sizes), trained(built(layers), sizes))
    assert not searches
    largest = max(region.priced.input_bytes for region in session_of(wrapped).regions)
    assert largest == 40 * 16 * 4


def test_a_first_call_below_the_largest_says_that_the_largest_does_not_fit():
    wrapped = lowtide.wrap(built(layers), budget=12_000, optimizer="sgd", time_limit=0.5,
                           dynamic_shapes=BATCH)
    for _ in range(2):
        with pytest.raises(lowtide.InfeasibleError, match="at batch=40, the largest"):
            wrapped(torch.randn(2, 16))


def test_a_size_outside_of_the_range_runs_with_one_warning():
    wrapped = wrapped_for(layers, 40, 1.0, dynamic_shapes=BATCH, when_infeasible="warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sizes = [41, 5, 44, 41, 40, 1]
        found = trained(wrapped, sizes)
    said = [str(each.message) for each in caught if "dynamic_shapes" in str(each.message)]
    assert len(said) == 1
    assert "batch=41" in said[0]
    assert "batch from 2 to 40" in said[0]
    assert same_bits(found, trained(built(layers), sizes))


def test_two_dimensions_of_two_names(searches):
    length, batch = Dim("length", min=3, max=9), Dim("batch", min=2, max=5)
    model = built(layers)
    wrapped = lowtide.wrap(model, model.inputs((3, 5)), budget="80%", optimizer="sgd",
                           time_limit=0.5, dynamic_shapes={"x": {0: batch, 1: length}})
    searches.clear()
    sizes = [(2, 3), (5, 9), (4, 9), (5, 4), (3, 7)]
    assert same_bits(trained(wrapped, sizes), trained(built(layers), sizes))
    assert not searches


class Padded(nn.Module):
    """Rounds its rows up: what it adds is the most for none."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        rows = x.shape[0]
        y = torch.cat([self.first(x), x.new_zeros(-rows % 8, 8)]).relu()
        return self.second(y)[:rows].square().mean()

    def inputs(self, size):
        return (torch.randn(size, 8),)


def test_a_value_that_is_larger_at_a_smaller_size_is_noticed():
    model = built(Padded)
    with pytest.warns(UserWarning, match="takes more at rows=.* than at rows=62"):
        wrapped = lowtide.wrap(model, model.inputs(62), budget="100%", optimizer="sgd",
                               time_limit=0.5,
                               dynamic_shapes={"x": {0: Dim("rows", min=2, max=62)}})
    sizes = [62, 9, 61, 33]
    assert same_bits(trained(wrapped, sizes), trained(built(Padded), sizes))


class Branching(nn.Module):
    """Other code for large inputs."""

    def __init__(self):
        super().__init__()
        self.small, self.large = nn.Linear(8, 8), nn.Linear(8, 32)

    def forward(self, x):
        y = self.large(x) if x.shape[0] > 10 else self.small(x)
        return y.square().mean()

    def inputs(self, size):
        return (torch.randn(size, 8),)


def test_each_part_of_a_range_with_other_code_is_planned(searches):
    model = built(Branching)
    wrapped = lowtide.wrap(model, model.inputs(12), budget="100%", optimizer="sgd", time_limit=0.5,
                           dynamic_shapes={"x": {0: Dim("rows", min=1, max=30)}})
    searches.clear()
    sizes = [1, 30, 10, 11, 2, 29]
    assert same_bits(trained(wrapped, sizes), trained(built(Branching), sizes))
    assert not searches


class Viewed(Layers):
    """Returns the same memory twice, which takes AOTAutograd's wrappers."""

    def forward(self, x):
        y = self.layers(x)
        return y.square().sum(), y, y.view(-1)


def viewed():
    return Viewed(16, 2)


def test_where_a_range_cannot_be_planned_as_a_whole_the_largest_is():
    model = built(viewed)
    with pytest.warns(UserWarning, match="only the largest is planned .* is a view"):
        wrapped = lowtide.wrap(model, model.inputs(5), budget="100%", optimizer="sgd",
                               time_limit=0.5, dynamic_shapes=BATCH)
    assert session_of(wrapped).regions[0].priced.input_bytes == 40 * 16 * 4
    sizes = [40, 3]
    assert same_bits(trained(wrapped, sizes), trained(built(viewed), sizes))


def test_parameters_are_updated_within_the_backward_pass_at_every_size(searches):
    sizes = [40, 3, 17]

    def run(model, optimizer):
        torch.manual_seed(1)
        for size in sizes:
            model(*model.inputs(size)).backward()
            optimizer.step()
            optimizer.zero_grad()
        return [p.detach() for p in model.parameters()]

    model, plain = built(layers), built(layers)
    optimizer, other = (torch.optim.Adam(each.parameters()) for each in (model, plain))
    wrapped = lowtide.wrap(model, model.inputs(9), budget="80%", optimizer=optimizer,
                           time_limit=0.5, fused_update=True, dynamic_shapes=BATCH)
    searches.clear()
    assert same_bits(run(wrapped, optimizer), run(plain, other))
    assert not searches


def structure(graph):
    """All but names and costs."""
    document = json.loads(graph.format())
    for record in document["tensors"] + document["ops"]:
        record.pop("name")
        for key in ("cost", "cost_estimated", "workspace_bytes", "allocations"):
            record.pop(key, None)
    return document["tensors"], document["ops"], document["outputs"]


def regions_by_size(wrapped, sizes):
    for size in sizes:
        wrapped(*wrapped.inputs(size))
    return session_of(wrapped).regions[-len(sizes):]


@pytest.mark.parametrize("make", [layers, transformer, lambda: Images(4)])
def test_a_graph_at_a_size_is_that_of_a_trace_at_this_size(make):
    """And its ops ask for the memory that they ask for when they are measured."""
    wrapped = wrapped_for(make, 20, 1.0, stash=None, dynamic_shapes=(
        LENGTHS if make is transformer else {"x": {0: Dim("batch", min=2, max=20)}}))
    sizes = [4, 13]
    for size, region in zip(sizes, regions_by_size(wrapped, sizes), strict=True):
        model = built(make)
        (traced,) = session_of(lowtide.wrap(model, model.inputs(size), stash=None)).regions
        assert structure(region.captured.graph) == structure(traced.captured.graph)
        for op, measured in zip(*(json.loads(each.priced.graph.format())["ops"]
                                  for each in (region, traced)), strict=True):
            assert [request[:2] for request in op.get("allocations", [])] \
                == [request[:2] for request in measured.get("allocations", [])], op["type"]


def test_a_plan_of_a_larger_size_serves_at_its_addresses():
    wrapped = wrapped_for(layers, 40, 0.7, dynamic_shapes=BATCH)
    largest, smaller = session_of(wrapped).regions[0], regions_by_size(wrapped, [39])[0]
    plan = session_of(wrapped).plan_for(largest)
    found = at_same_addresses(smaller.priced.graph, plan, plan.arena_bytes)
    assert found.actions == plan.actions
    assert lowtide.verify(smaller.priced.graph, found, plan.arena_bytes) is None
    small = session_of(wrapped).plan_for(smaller)
    assert at_same_addresses(largest.priced.graph, small, small.arena_bytes) is None


def test_a_dropped_model_is_gone():
    wrapped = wrapped_for(layers, 40, 0.8, dynamic_shapes=BATCH)
    trained(wrapped, [40, 3, 9])
    parameter = weakref.ref(next(wrapped.parameters()))
    del wrapped
    gc.collect()
    assert parameter() is None


class LongOrShort(nn.Module):
    """Runs other code for short inputs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 32)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        if x.shape[1] <= 5:
            hidden = torch.tanh(self.second(hidden)).exp().sin()
        return hidden.square().mean()


def test_every_part_is_planned_where_a_batch_may_be_one(searches):
    model = built(LongOrShort)
    places = ({0: Dim("batch", min=1, max=2), 1: Dim("length", min=2, max=16)},)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = lowtide.wrap(model, torch.randn(2, 8, 16), "100%", optimizer="none",
                               dynamic_shapes=places, time_limit=0.3, verbose=False)
    made = len(searches)
    for rows, length in ((2, 16), (1, 3), (2, 4), (1, 16), (2, 12)):
        wrapped(torch.randn(rows, length, 16)).backward()
        assert wrapped.memory.measured_peak <= wrapped.budget
    assert len(searches) == made


def test_a_budget_that_is_set_later_holds_for_the_largest_size():
    places = {"x": {0: Dim("batch", min=2, max=64)}}
    model = lowtide.wrap(built(lambda: Layers(16, 3)), torch.randn(64, 16), "100%",
                         optimizer="none", dynamic_shapes=places, time_limit=0.3, verbose=False)
    model(torch.randn(2, 16)).backward()
    model.zero_grad()
    with pytest.raises(lowtide.InfeasibleError) as refused:
        model.budget = 2000
    model.budget = refused.value.smallest_budget
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "no plan within")
        model(torch.randn(64, 16)).backward()
    assert model.memory.measured_peak <= model.budget
