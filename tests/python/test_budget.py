"""A budget is parsed once, by the words of the planner."""

import lowtide
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowtide import _core

torch = pytest.importorskip("torch")

from lowtide.pytorch.budget.budget import Budget  # noqa: E402
from lowtide.pytorch.budget.shares import Need, shares  # noqa: E402


@pytest.mark.parametrize("given, expected", [
    (10**8, 10**8), (1e9, 10**9), ("6GiB", 6 << 30), ("1.5 KiB", 1536), (" 800000000 ", 8 * 10**8)])
def test_bytes_are_those_whatever_a_step_takes(given, expected):
    budget = Budget.parse(given)
    assert not budget.is_unlimited and budget.share is None
    assert budget.resolve(0) == budget.resolve(10**12) == expected


@pytest.mark.parametrize("text", ["60%", " 33.3 % ", "100%", "0.7%"])
def test_shares_are_those_of_the_planner(text):
    budget = Budget.parse(text)
    assert budget.bytes is None and not budget.is_unlimited
    for keep_all_bytes in (1, 999, 123456789, (1 << 53) + 1):
        assert budget.resolve(keep_all_bytes) == _core.Budget(text).resolve(keep_all_bytes)


@pytest.mark.parametrize("given", [None, "inf", float("inf")])
def test_no_limit_is_one_thing(given):
    budget = Budget.parse(given)
    assert budget.is_unlimited and budget.resolve(1000) is None


def test_a_budget_stays_as_it_is_and_is_shown_as_given():
    budget = Budget.parse("60%")
    assert Budget.parse(budget) is budget and str(budget) == "60%"


@pytest.mark.parametrize("text", ["6GX", "120%", "0%", "-3", "0", "", "many", "1e3%"])
def test_what_is_wrong_is_said_as_by_the_planner(text):
    with pytest.raises(lowtide.InputError) as ours:
        Budget.parse(text)
    with pytest.raises(lowtide.InputError) as theirs:
        _core.Budget(text)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("given", [True, 0.6, float("nan"), 1j, [1], -5])
def test_what_is_no_budget_is_refused(given):
    with pytest.raises(lowtide.InputError, match="budget"):
        Budget.parse(given)


NEEDS = st.lists(st.builds(
    lambda residents, floor, more: Need(residents + floor + more, residents + floor, residents),
    *[st.integers(0, 1 << 20)] * 3), min_size=1, max_size=5)


@settings(deadline=None)
@given(NEEDS, st.integers(0, 1 << 24), st.integers(0, 1 << 24), st.integers(0, 1 << 16))
def test_shares_fit_together_and_grow_with_the_budget(needs, total, more, again):
    try:
        less = shares(total, needs, again)
    except lowtide.InfeasibleError:
        return
    blocks = sum(share - need.resident_bytes for share, need in zip(less, needs))
    assert max(need.resident_bytes for need in needs) + blocks <= max(total, less[0])
    if len(needs) > 1:
        assert all(share >= need.floor_bytes for share, need in zip(less, needs))
    assert all(a <= b for a, b in zip(less, shares(total + more, needs, again)))
    assert all(share >= 1 << 30 for share in shares(1 << 60, needs, again))
