"""Copies need buffers, which are part of a budget only where something moves: a model that may move
values is never refused where it is not refused without that, and never predicted to take longer."""

import itertools

import lowtide
import pytest
from lowtide.pytorch.wrap import session_of
from sweep import sweep
from test_wrap_offload import PLAIN, Broken, drawn, inputs
from wrap_cases import built, same, train

pytestmark = [pytest.mark.usefixtures("own_cache", "one_thread"),
              pytest.mark.cpu_only("budgets that count buffers for copies, as on the CPU")]

BUFFERS = 8 << 20


def wrapped(make, budget, folder=None, **options):
    offload = None if folder is None else lowtide.Offload(folder, bandwidth="2GB/s", latency=50)
    return lowtide.wrap(built(make), inputs(), budget, optimizer="sgd", offload=offload,
                        time_limit=0.5, **options)


def predicted(make, budget, folder=None):
    """The cost of the model's plan; infinity where it is refused."""
    try:
        model = wrapped(make, budget, folder)
    except lowtide.InfeasibleError:
        return float("inf")
    session = session_of(model)
    return sum(session.plan_for(region).cost for region in session.regions)


@pytest.mark.parametrize("make", sweep([PLAIN, drawn(3)], usual=[PLAIN]))
def test_what_may_move_is_never_worse_than_what_may_not(make, tmp_path):
    costs = {}
    for percent in (10, 40, 70, 100):
        without = predicted(make, f"{percent}%")
        costs[percent] = without, predicted(make, f"{percent}%", tmp_path)
        assert costs[percent][1] <= without, percent
    unmoved, moved = zip(*costs.values())
    assert max(unmoved) == float("inf")  # budgets that are too small are among them
    assert any(b < a for a, b in zip(unmoved, moved))  # and some within which moves gain


def test_a_budget_that_just_holds_all_values_has_no_buffers(tmp_path):
    keep_all = session_of(wrapped(PLAIN, "1GiB")).memory().planned_peak
    least = next(budget for budget in itertools.count(keep_all, 1 << 16)
                 if wrapped(PLAIN, budget).memory.planned_peak >= keep_all)
    assert least < keep_all + BUFFERS // 4
    model = wrapped(PLAIN, least, tmp_path)
    assert model.memory.planned_peak == keep_all
    assert same(train(model, inputs), train(built(PLAIN), inputs))
    assert model.memory.moved.bytes_out == 0


@pytest.mark.parametrize("make", sweep([PLAIN, Broken], usual=[Broken]))
def test_the_smallest_budget_of_an_error_is_no_larger_than_without_moves(make, tmp_path):
    def smallest(folder):
        with pytest.raises(lowtide.InfeasibleError) as error:
            wrapped(make, "3MiB", folder)
        return error.value.smallest_budget

    with_moves = smallest(tmp_path)
    assert with_moves <= smallest(None)
    wrapped(make, with_moves, tmp_path)


def test_buffers_come_and_go_with_the_budget(tmp_path):
    model = wrapped(PLAIN, "1GiB", tmp_path, strategy="offload")
    all_kept = model.memory.existing
    expected = train(built(PLAIN), inputs, steps=2)
    for budget, buffers in [("55%", BUFFERS), ("1GiB", 0)]:
        lowtide.set_budget(model, budget)
        assert model.memory.existing - all_kept >= buffers
        assert model.memory.existing - all_kept < buffers + (1 << 20)
    assert same(train(model, inputs, steps=2), expected)
