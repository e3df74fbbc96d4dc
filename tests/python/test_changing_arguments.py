"""Arguments that change from call to call: what is planned anew for them, and what is said."""

import contextlib
import warnings

import lowtide
import pytest
import torch
from lowtide.pytorch.common.notices import warn
from lowtide.pytorch.dynamo.retrace_warning import what_changed
from lowtide.pytorch.wrap import session_of
from torch import nn

pytestmark = pytest.mark.usefixtures("own_cache", "one_thread")


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, scale=1.0, kind="", **more):
        y = self.layer(x) * scale * (1 + len(kind))
        for value in more.values():
            y = y + value
        return y.sum()


def regions_after(arguments, count=7):
    """How many graphs are planned after calls with these, by number."""
    model = lowtide.wrap(Scaled(), time_limit=0.1)
    for number in range(1, count + 1):
        given, named = arguments(number)
        model(torch.ones(4, 8), *given, **named).backward()
    return len(session_of(model).regions)


@pytest.mark.parametrize("arguments, said", [
    (lambda n: ((), {"scale": n / 8}), r"differ in numbers alone, now scale = 0\.\d+\. .*as a te"),
    (lambda n: ((n,), {}), r"differ in numbers alone, now argument 2 = \d\. .*as a tensor"),
    (lambda n: ((), {"kind": "k" * n}), r"changed: kind == '\w+'.*other value of an argument"),
    (lambda n: ((), {f"more_{n}": 0.5}), "Which keyword arguments are given differs")])
def test_what_changes_in_each_call_is_named_once_as_the_caller_knows_it(arguments, said):
    with pytest.warns(UserWarning, match=said) as caught:
        regions_after(arguments)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_number_that_is_given_as_a_tensor_is_no_part_of_the_plan():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert regions_after(lambda n: ((), {"scale": torch.tensor(n / 8)})) == 1


def test_numbers_that_go_with_sizes_are_not_warned_of():
    model = lowtide.wrap(Scaled(), time_limit=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in range(2, 9):
            x = torch.ones(rows, 8)
            model(x, x.shape[0]).backward()


@pytest.mark.parametrize("guard, said", [
    ("2/0: named['p'] == 0.5   # y = x * p  # m.py:3 in forward", "p == 0.5 (in: y = x * p). Give"),
    ("0/1: len(named) == 1", "Which keyword"), ("not named  # run", "Which keyword"),
    ("1/0: KeyError on named['mask']", "Which keyword"),
    ("0/0: L['named']['p'] == 1", "changed: p == 1."),
    ("0/0: arguments[1] == ''", "argument 2 == ''. Give numbers"),
    ("0/0: self.layers[1].p == 0.5", "self.layers[1].p == 0.5. Give what changes"),
    ("0/0: self.named.p == 1", "Give what changes"), ("", "has changed")])
def test_guards_are_told_in_words_of_the_call(guard, said):
    assert said in what_changed(guard)


#: Of a file that is not the user's, as ``<`` says. The standard library's frame is between the two.
IN_A_CONTEXT = """
@contextlib.contextmanager
def warning():
    warn("within")
    yield

with warning():
    pass
"""


def test_a_warning_within_a_context_manager_is_at_the_line_of_the_user():
    with pytest.warns(UserWarning, match="within") as caught:
        exec(compile(IN_A_CONTEXT, "<lowtide>", "exec"), {"warn": warn, "contextlib": contextlib})
    assert caught[0].filename == __file__
