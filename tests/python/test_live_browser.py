"""The page of a training that runs, as a browser shows it."""

import contextlib
import os
import pathlib
import re

import browser as chromium
import lowtide
import pytest
from live_cases import Training, state_of
from lowtide.live_page import RunningTraining, Server
from report_cases import HOSTILE

pytestmark = [
    pytest.mark.skipif(chromium.PROGRAM is None, reason=chromium.WHY_NOT),
    pytest.mark.usefixtures("one_thread", "own_cache"),
]
PICTURES = os.environ.get("LOWTIDE_PICTURES")


@pytest.fixture(scope="module")
def browser():
    with chromium.opened_browser() as opened:
        yield opened


@contextlib.contextmanager
def opened(browser, url, width=1280, scheme="light"):
    with contextlib.closing(chromium.Tab(browser, url, width, scheme)) as tab:
        tab.wait_for("document.documentElement?.dataset.drawn !== undefined")
        yield tab


def figures_of(tab):
    return dict(tab.value("[...document.querySelectorAll('dl div')].map(box => "
                          "[box.firstChild.textContent, box.lastChild.textContent])"))


def charts_of(tab):
    return tab.value("[...document.querySelectorAll('section')].map(one => one.dataset.chart)")


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 390)])
def test_a_training_is_drawn_and_goes_on(browser, scheme, width):
    training = Training()
    with lowtide.live(training.model) as live:
        training.steps(3, live)
        with opened(browser, live.url, width, scheme) as tab:
            training.steps(3, live)
            tab.wait_for("document.documentElement.dataset.drawn === '5'")
            if PICTURES:
                tab.screenshot(pathlib.Path(PICTURES) / f"live-{scheme}-{width}.png")
            shown, state = figures_of(tab), state_of(live)
            assert shown["steps"] == "6" and shown["passes"] == "5"
            assert float(shown["steps in a second"]) == pytest.approx(
                state["steps"]["per_second"], rel=1e-3)
            assert shown["budget"] and shown["measured peak"] and shown["planned peak"]
            assert charts_of(tab) == ["memory of a pass", "loss"]
            loss = state["values"]["loss"]["values"][-1]
            text = tab.value("document.querySelector('[data-chart=loss] .key').textContent")
            assert float(text.removeprefix("loss: ")) == pytest.approx(loss, rel=1e-3)
            assert tab.value("document.querySelectorAll('polyline').length") == 4
            assert tab.value("document.documentElement.scrollWidth") <= width
            ground = tab.value("getComputedStyle(document.body).backgroundColor")
            assert (min(map(int, re.findall(r"\d+", ground))) > 200) == (scheme == "light")
            assert tab.errors() == []
            live.close()
            tab.wait_for("document.documentElement.dataset.ended === 'true'")
            assert "ended" in tab.value("document.getElementById('status').textContent")
            assert charts_of(tab) == ["memory of a pass", "loss"]  # the last figures stay


def test_names_are_no_markup_and_gaps_are_gaps(browser):
    progress = RunningTraining(HOSTILE)
    for value in (1.0, 2.0, float("nan"), 3.0):
        progress.note_step({HOSTILE: value, "flat": 0.0})
    server = Server(0, progress.document)
    try:
        with opened(browser, server.url) as tab:
            assert tab.value("document.getElementById('name').textContent") == HOSTILE
            assert charts_of(tab) == ["memory of a pass", HOSTILE, "flat"]
            assert tab.value("document.querySelectorAll('section:nth-of-type(2) polyline')"
                             ".length") == 2
            assert tab.value("document.scripts.length") == 1
            assert tab.value("document.querySelectorAll('b, [onclick]').length") == 0
            assert tab.errors() == []
    finally:
        server.end()
        server.join()
