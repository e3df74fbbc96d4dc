"""What wrap and max_batch say on standard error while they work."""

import time

import lowtide
import pytest

torch = pytest.importorskip("torch")

from lowtide.pytorch.common import progress  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


@pytest.fixture
def impatient(monkeypatch):
    """Everything takes too long to go without a word."""
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr("lowtide.pytorch.plans.planning.plan", slowly(lowtide.plan))


def slowly(function):
    def run(*given, **named):
        time.sleep(0.05)
        return function(*given, **named)

    return run


def layers():
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))


def wrapped(**settings):
    return lowtide.wrap(layers(), torch.randn(256, 16), budget="90%", time_limit=1, cache=False,
                        **settings)


def planned_lines(text):
    return [line for line in text.splitlines() if line.startswith("lowtide: planning Sequential (")]


def test_a_plan_that_takes_long_is_told_of_in_one_line(impatient, capsys):
    wrapped()
    line, *others = planned_lines(capsys.readouterr().err)
    assert not others and " within " in line and "at most 1 s" in line
    assert line.endswith(("time", "or more)", "(optimal)"))


@pytest.mark.parametrize("settings", [{"verbose": False}, {"report": lambda line: None}])
def test_nothing_is_said_to_those_who_want_it_otherwise(impatient, capsys, settings):
    wrapped(**settings)
    assert not capsys.readouterr().err


def test_a_report_may_print(capsys):
    wrapped(report=print)
    assert "planning Sequential, at most 1 s" in capsys.readouterr().out


def test_a_plan_that_takes_a_moment_is_not_told_of(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 60.0)  # a moment of a busy machine
    wrapped()
    assert not planned_lines(capsys.readouterr().err)


def test_work_that_fails_ends_its_line(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    with pytest.raises(ValueError), progress.Progress("working"):
        time.sleep(0.05)
        raise ValueError
    said = capsys.readouterr().err
    assert said.startswith("lowtide: working ... 0.") and said.endswith(" s, stopped\n")


def test_max_batch_says_what_it_tries(capsys):
    def found(**settings):
        return lowtide.max_batch(lambda size: (layers(), torch.randn(size, 16)), 120_000,
                                 optimizer="sgd", time_limit=1, limit=2, **settings)

    found()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1] for line in lines] == [
        " trying a batch of 1", " a batch of 1 fits", " trying a batch of 2", " a batch of 2 fits"]
    found(verbose=False)
    told = []
    found(report=told.append)
    assert not capsys.readouterr().err and "trying a batch of 2" in told
