"""Long lists of cases, of which the usual run of the tests takes some and `make test-all` all."""

import pytest


def sweep(cases, usual):
    """For `parametrize`: the cases, of which those that are not among ``usual`` are marked."""
    cases, usual = list(cases), list(usual)
    assert all(case in cases for case in usual)
    return [case if case in usual else _marked(case) for case in cases]


def _marked(case):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.sweep)
