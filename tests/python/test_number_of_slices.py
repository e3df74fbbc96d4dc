"""slices="auto": the number of slices whose plan costs the least, within the budget."""

import random

import lowtide
import pytest
import torch
from lowtide.pytorch.capture import from_joint
from lowtide.pytorch.dynamo import joint_trace
from lowtide.pytorch.wrap import session_of
from on_device import DEVICE
from slices_cases import ROWS, Wide, needed_bytes, number_of_slices, tokens
from sweep import sweep
from torch import nn

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")

SECONDS = 0.3
#: More costs than this share would be by the clock: a plan that is in the store is taken.
SAME = 1 + 1e-9


def wrapped_in(model, inputs, budget, slices, **options):
    return lowtide.wrap(model, inputs, budget, slices=slices, optimizer="none",
                        **{"time_limit": SECONDS, **options})


def cost_of(wrapped):
    session = session_of(wrapped)
    region, = session.regions
    return session.plan_for(region).cost


def keep_all_cost_of(wrapped):
    region, = session_of(wrapped).regions
    return region.priced.keep_all_cost


def each_number(model, inputs, budget):
    """What plans of 1, 2, 4, ... slices cost, and what it costs to keep all; by number, where there
    is a plan. They are in the store then."""
    found = {}
    for slices in (1, 2, 4):
        try:
            wrapped = wrapped_in(model, inputs, budget, slices)
        except lowtide.InfeasibleError:
            continue
        found[slices] = cost_of(wrapped), keep_all_cost_of(wrapped)
    return found


def wanted_number(found):
    """The first that fits, then more as long as that costs less; one where it keeps all."""
    number = min(found)
    if number == 1 and found[1][0] <= 1.0001 * found[1][1]:
        return 1
    while found.get(2 * number, (float("inf"),))[0] < found[number][0]:
        number *= 2
    return number


def drawn_model(draw):
    width, layers = draw.choice([8, 24, 64]), draw.randint(2, 5)
    kinds = [lambda: nn.Linear(width, width), nn.Tanh, nn.GELU, lambda: nn.LayerNorm(width)]
    parts = [draw.choice(kinds)() for _ in range(layers)]
    return nn.Sequential(nn.Linear(8, width), *parts, nn.Linear(width, draw.choice([4, 256])))


@pytest.mark.parametrize("seed", sweep(range(30), range(3)))
def test_the_fastest_number_of_random_models_in_random_budgets(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    model = drawn_model(draw).to(DEVICE)
    inputs = torch.randn(4, draw.choice([16, 64]), 8, device=DEVICE)
    least, most = needed_bytes(model, inputs, 4), needed_bytes(model, inputs, 1)
    budget = draw.randint(least, int(1.5 * most))
    found = each_number(model, inputs, budget)
    chosen = wrapped_in(model, inputs, budget, "auto")
    number = number_of_slices(chosen)
    assert number == wanted_number(found)
    assert cost_of(chosen) <= SAME * found[min(found)][0]  # never above that of the first that fits
    chosen(inputs).sum().backward()
    assert len(session_of(chosen).regions) == 1
    assert chosen.memory.planned_peak <= budget


def test_slices_that_save_time_are_taken_and_those_that_do_not_are_not():
    inputs = tokens(4000, 8, 64), tokens(4000, 8, 64)
    model = Wide().to(DEVICE)
    least = needed_bytes(model, inputs, 1)
    assert number_of_slices(wrapped_in(model, inputs, 2 * least, "auto")) == 1
    assert number_of_slices(wrapped_in(model, inputs, None, "auto")) == 1
    for number in (2, 4):
        budget = needed_bytes(model, inputs, number)
        chosen = wrapped_in(model, inputs, budget, "auto")
        assert number_of_slices(chosen) >= number
        chosen(*inputs).backward()
        assert chosen.memory.measured_peak <= budget
        chosen.zero_grad()  # gradients that are kept would need room beside the next plan


@pytest.mark.filterwarnings("error")
def test_a_share_of_dropout_may_change():
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.Linear(32, 4)).to(DEVICE)
    inputs = torch.randn(16, 8, device=DEVICE)
    wrapped = wrapped_in(model, inputs, None, "auto")
    for share in (0.0, 0.25, 1.0):
        model[1].p = share
        wrapped(inputs).sum().backward()
        if share == 1.0:
            assert not model[2].weight.grad.any()
        model.zero_grad()


def test_the_time_limit_is_shared(costs_of_a_data_sheet):
    """A half for each number after the first one that has a plan: twice the limit in all."""
    inputs = tokens(4000, 8, 64), tokens(4000, 8, 64)
    lines = []
    wrapped_in(Wide().to(DEVICE), inputs, needed_bytes(Wide().to(DEVICE), inputs, 2), "auto",
               report=lines.append, time_limit=0.4, cache=False, stash=None)
    limits, limit = {}, None
    for line in lines:
        if line.startswith("planning "):
            limit = float(line.split("at most ")[1].split()[0])
        if " in " in line and "slice" in line:
            if limit is not None:  # it was searched, and not only found to be slower
                limits[int(line.split(" in ")[1].split()[0])] = limit
            limit = None
    assert limits[1] == limits[2] == 0.4  # of which the second has a plan
    assert len(limits) > 2
    assert all(limits[number] <= 0.2 * 4 / number for number in limits if number > 2)


def test_a_share_is_one_of_what_one_slice_takes():
    inputs = tokens(4000, 8, 64), tokens(4000, 8, 64)
    model = Wide().to(DEVICE)
    whole = wrapped_in(model, inputs, "100%", 1).memory.budget
    sliced = wrapped_in(model, inputs, "60%", "auto")
    assert number_of_slices(sliced) > 1
    assert sliced.memory.budget == pytest.approx(0.6 * whole, abs=2)
    assert wrapped_in(model, inputs, "100%", 2).memory.budget < whole


def test_where_none_fits_and_steps_may_exceed_the_budget_it_is_the_one_that_needs_the_least():
    inputs = tokens(4000, 4, 16), tokens(4000, 4, 16)
    with pytest.warns(UserWarning, match="by the plan that needs the least"):
        chosen = wrapped_in(Wide().to(DEVICE), inputs, 1000, "auto", when_infeasible="warn")
    assert number_of_slices(chosen) == 4
    chosen(*inputs).backward()


def test_other_sizes_get_a_number_of_their_own():
    inputs = tokens(4000, 8, 64), tokens(4000, 8, 64)
    budget = needed_bytes(Wide().to(DEVICE), inputs, 4)
    model = Wide().to(DEVICE)
    chosen = wrapped_in(model, None, budget, "auto")
    for rows in (2, 8, 2, 8, 2):
        measures_ops = len(session_of(chosen).regions) < 2
        chosen(*(values[:rows] for values in inputs)).backward()
        model.zero_grad()
        assert measures_ops or chosen.memory.measured_peak <= budget


def test_a_model_without_rows_has_one_slice_and_no_warning_where_it_fits(recwarn):
    model = nn.Sequential(nn.Flatten(0), nn.Linear(4 * ROWS, 64), nn.Tanh(), nn.Linear(64, 64),
                          nn.Tanh(), nn.Linear(64, 64)).to(DEVICE)
    inputs = torch.randn(ROWS, 4, device=DEVICE)
    chosen = wrapped_in(model, inputs, needed_bytes(model, inputs, 1), "auto")
    assert number_of_slices(chosen) == 1
    assert not [found for found in recwarn if "slices" in str(found.message)]


def test_auto_says_what_the_smallest_needs_where_none_fits():
    inputs = tokens(4000, 4, 16), tokens(4000, 4, 16)
    with pytest.raises(lowtide.InfeasibleError) as refused:
        lowtide.wrap(Wide().to(DEVICE), inputs, 1000, slices="auto", optimizer="none",
                     time_limit=0.3)
    # Ops are measured anew for the other search, which may end some bytes away.
    needed = needed_bytes(Wide().to(DEVICE), inputs, 4)
    assert refused.value.smallest_budget == pytest.approx(needed, rel=0.01)


def test_a_budget_that_was_there_before_captures_nothing_again(monkeypatch):
    captured = []

    def counted(*arguments, **named):
        captured.append(named["name"])
        return from_joint(*arguments, **named)

    monkeypatch.setattr(joint_trace, "from_joint", counted)
    inputs = torch.randn(64, 128, device=DEVICE)
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(128, 128), nn.ReLU(),
                                                                  nn.Dropout(0.1)))).to(DEVICE)
    low, high = needed_bytes(model, inputs, 2), needed_bytes(model, inputs, 1)
    chosen = wrapped_in(model, inputs, high, "auto")
    for budget in (low, high, low):
        chosen.budget = budget
    assert session_of(chosen).planned[0].stashes.found
    known = len(captured)
    for budget in (high, low):
        chosen.budget = budget
    assert len(captured) == known > 2
