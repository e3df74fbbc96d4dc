"""The largest batch: the next one really has no plan, and the step was run."""

import lowtide
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.usefixtures("own_cache")


def make(size):
    torch.manual_seed(0)
    layers = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.Tanh())]
    return nn.Sequential(*layers), torch.randn(size, 64)


@pytest.mark.parametrize("budget", [None, "inf", float("inf"), "60%"])
def test_budgets_that_every_batch_fits_are_refused(budget):
    with pytest.raises(lowtide.InputError, match="wants a budget in bytes"):
        lowtide.max_batch(lambda size: (torch.nn.Linear(8, 8), torch.randn(size, 8)), budget)


def test_a_model_that_is_made_once_is_tried_as_one_made_anew():
    def layers():
        return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))

    kept = layers()
    found = [lowtide.max_batch(lambda size: (make(), torch.randn(size, 16)), 120_000,
                               optimizer="sgd", time_limit=1, limit=64)
             for make in (layers, lambda: kept)]
    assert found[0].size == found[1].size
    assert all(parameter.grad is None for parameter in kept.parameters())


def test_the_largest_batch_fits_and_the_next_does_not():
    found = lowtide.max_batch(make, 400_000, time_limit=1)
    assert found.too_large == found.size + 1
    assert 0 < found.memory.measured_peak <= 400_000
    with pytest.raises(lowtide.InfeasibleError):
        lowtide.wrap(*make(found.too_large), budget=400_000, time_limit=1)


@pytest.mark.parametrize("budget, most", [(300_000, 8), (2_000_000, 9)])
def test_few_sizes_are_tried(budget, most):
    """Doubling and halving would take 14 and 21 for these."""
    tried = []

    def counted(size):
        tried.append(size)
        return make(size)

    found = lowtide.max_batch(counted, budget, time_limit=1)
    assert found.too_large == found.size + 1 and len(tried) == len(set(tried)) <= most


def test_the_limit_is_tried_and_not_passed():
    found = lowtide.max_batch(make, 10**9, limit=37, time_limit=1)
    assert (found.size, found.too_large) == (37, None)


def test_nothing_fits():
    with pytest.raises(lowtide.InfeasibleError, match="smallest budget"):
        lowtide.max_batch(make, 1000)


def test_a_share_is_no_budget_here():
    with pytest.raises(lowtide.InputError, match="grows with the batch"):
        lowtide.max_batch(make, "60%")


def test_a_stop_keeps_the_best(monkeypatch):
    def stopped_at_four(size):
        if size >= 4:
            raise KeyboardInterrupt
        return make(size)

    found = lowtide.max_batch(stopped_at_four, 400_000, time_limit=1)
    assert (found.size, found.too_large) == (2, None)


@pytest.mark.parametrize("sizes, message", [
    ({"start": 0}, "start must be a whole number, at least 1, not 0"),
    ({"start": -1}, "start must be a whole number, at least 1, not -1"),
    ({"start": 1.5}, "start must be a whole number, at least 1, not 1.5"),
    ({"start": True}, "start must be a whole number"),
    ({"limit": 0}, "limit must be a whole number, at least 1, not 0"),
    ({"limit": "8"}, "limit must be a whole number, at least 1, not '8'"),
    ({"start": 5, "limit": 4}, "start must be at most limit, which is 4, not 5")])
def test_sizes_that_are_none_are_refused_before_anything_is_tried(sizes, message):
    with pytest.raises(lowtide.InputError, match=message):
        lowtide.max_batch(lambda size: pytest.fail("a size was tried"), 400_000, **sizes)


@pytest.mark.parametrize("fails", ["make_step", "model"])
def test_an_error_of_the_model_says_how_far_the_search_came(fails):
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, _ = make(1)

        def forward(self, x):
            if x.shape[0] >= 4:
                raise ValueError("too many rows")
            return self.net(x)

    def picky(size):
        if fails == "make_step" and size >= 4:
            raise ValueError("too many rows")
        return Picky(), torch.randn(size, 64)

    with pytest.raises(Exception, match="too many rows") as caught:
        lowtide.max_batch(picky, 400_000, time_limit=0.3)
    assert caught.value.largest_batch.size == 2
    assert caught.value.largest_batch.memory.measured_peak > 0
    (note,) = caught.value.__notes__
    assert note == "max_batch tried a batch of 16; the largest that fitted before is 2"


def test_an_error_at_the_first_size_has_no_largest_batch():
    with pytest.raises(ZeroDivisionError) as caught:
        lowtide.max_batch(lambda size: 1 / 0, 400_000)
    assert caught.value.largest_batch is None
    assert caught.value.__notes__ == ["max_batch tried a batch of 1; none was tried before"]


class Normalized(nn.Module):
    """Refuses a batch of 1."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.Linear(32, 4))

    def forward(self, x):
        return self.layers(x)


def normalized(size):
    return Normalized(), torch.randn(size, 16)


def test_a_model_that_needs_two_is_tried_with_two():
    found = lowtide.max_batch(normalized, "64KiB", limit=8, time_limit=0.2, verbose=False)
    assert found.size == 8
    with pytest.raises(Exception, match="more than 1 value per channel") as caught:
        lowtide.max_batch(normalized, "64KiB", start=1, time_limit=0.2, verbose=False)
    assert caught.value.largest_batch is None


def test_tune_finds_the_largest_batch_of_a_model_that_needs_two():
    found = lowtide.tune(normalized, None, "20KiB", goal="batch", precisions=(), ways=(),
                         time_limit=0.2, verbose=False)
    assert found.best is not None and found.best.size >= 2


@pytest.mark.parametrize("goal", ["batch", "length"])
def test_tune_speaks_of_what_it_was_asked_for(goal):
    said = []
    with pytest.raises(lowtide.InputError, match=f"tune wants a function of the {goal}") as caught:
        lowtide.tune(lambda size: torch.nn.Linear(size, 1), None, "5MiB", goal=goal,
                     report=said.append)
    assert caught.value.__notes__ == [f"tune tried a {goal} of 1; none was tried before"]
    assert said == [f"trying a {goal} of 1"]


@pytest.mark.parametrize("budget", [0, "0GiB", 0.5, "5 parsecs", -1])
def test_no_share_is_proposed_where_only_bytes_make_sense(budget):
    for search in (lambda: lowtide.max_batch(make, budget),
                   lambda: lowtide.tune(*make(2), budget, verbose=False)):
        with pytest.raises(lowtide.InputError, match="512MB") as refused:
            search()
        assert "%" not in str(refused.value)
        assert str(budget) in str(refused.value)


def test_what_is_no_function_is_refused():
    with pytest.raises(lowtide.InputError, match="max_batch wants a function .*not a int"):
        lowtide.max_batch(3, "5MiB")


def test_a_model_in_place_of_a_function_is_refused():
    with pytest.raises(lowtide.InputError, match="max_batch wants a function .*not a Linear"):
        lowtide.max_batch(torch.nn.Linear(8, 8), "5MiB")


def test_a_function_that_makes_the_same_step_for_every_size_is_refused():
    """Else every size would be said to fit."""
    with pytest.raises(lowtide.InputError, match=r"for 1 and \d+ it gives the same step.*3, 64"):
        lowtide.max_batch(lambda size: make(3), "5MiB", verbose=False)


def test_sizes_that_are_padded_alike_are_other_sizes():
    def make_padded(size):
        return make(-(-size // 8) * 8)

    found = lowtide.max_batch(make_padded, 400_000, time_limit=1)
    assert found.size % 8 == 0 and found.too_large == found.size + 1


def test_a_model_may_have_the_size():
    def make_wide(size):
        return nn.Sequential(nn.Linear(8, 64 * size), nn.Linear(64 * size, 1)), torch.randn(2, 8)

    assert lowtide.max_batch(make_wide, "5MiB", limit=3, optimizer="sgd", verbose=False).size == 3


def test_a_function_that_returns_no_inputs_is_refused():
    with pytest.raises(lowtide.InputError, match=r"returns a model and its inputs.*a Linear"):
        lowtide.max_batch(lambda size: torch.nn.Linear(size, 1), budget="5MiB", verbose=False)
