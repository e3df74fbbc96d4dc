"""A budget is parsed once, by the words of the planner."""

import lowtide
import pytest
from lowtide import _core

torch = pytest.importorskip("torch")

from lowtide.pytorch.budget.budget import Budget  # noqa: E402


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
