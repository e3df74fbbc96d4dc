"""`lowtide train --live`: a page that shows a training while it runs."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import browser as chromium
import pytest
from conftest import BINARY, TINY

STEPS = 1_000_000


@contextlib.contextmanager
def shown(lowtide, *arguments):
    """A training with a page, after some steps, and the address. It is stopped afterwards."""
    process = subprocess.Popen(
        [BINARY, "train", *TINY, "--steps", str(STEPS), "--live", *map(str, arguments)],
        cwd=lowtide.folder, env=lowtide.environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)
    try:
        url = None
        for line in process.stderr:
            found = re.fullmatch(r"live: (http://127\.0\.0\.1:\d+/[0-9a-f]{32}/)\n", line)
            url = found[1] if found else url
            if line.startswith("step ") or "--quiet" in arguments and url:
                break
        yield process, url
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def fetched(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers, answer.read().decode()


def status_of(url, method="GET", **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers, method=method),
                                    timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def listens(url):
    address = urllib.parse.urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((address.hostname, address.port)) == 0


def test_a_training_is_shown_while_it_runs(lowtide):
    with shown(lowtide, "--budget", "70%") as (process, url):
        headers, page = fetched(url)
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "live.js" in page and fetched(f"{url}live.css") and fetched(f"{url}live.js")
        headers, text = fetched(f"{url}state")
        assert headers["Content-Type"] == "application/json"
        state = json.loads(text)
        assert state["name"] == "mlp" and state["steps"]["whole"] == STEPS
        assert 0 < state["steps"]["count"] < STEPS
        figures, memory = state["figures"], state["memory"]
        assert figures["peak_bytes"] <= figures["budget_bytes"]
        assert figures["planned_bytes"] <= figures["budget_bytes"]
        assert max(memory["peak_bytes"]["values"]) == figures["peak_bytes"]
        points = len(state["values"]["loss"]["values"])
        assert points == len(memory["planned_bytes"]["values"]) <= 1000
        later = json.loads(fetched(f"{url}state")[1])
        assert later["steps"]["count"] >= state["steps"]["count"]
        assert listens(url)
    assert process.returncode != 0 and not listens(url)


def test_only_this_machine_is_answered(lowtide):
    with shown(lowtide) as (_, url):
        secret = urllib.parse.urlsplit(url).path
        port = urllib.parse.urlsplit(url).port
        assert status_of(url) == status_of(url, Host=f"localhost:{port}") == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", ""):
            assert status_of(url, Host=host) == 403
        other = url.replace(secret, f"/{'0' * 32}/")
        for path in (other, f"{other}state", url[:-1], f"{url}../state", f"{url}live.html",
                     f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/state"):
            assert status_of(path) == 404, path
        for method in ("POST", "PUT", "HEAD", "DELETE"):
            assert status_of(url, method) == 405


def test_clients_that_say_nothing_or_nonsense_do_no_harm(lowtide):
    with shown(lowtide) as (process, url):
        address = urllib.parse.urlsplit(url)
        with contextlib.ExitStack() as open_ones:
            for sent in [b"", b"GET", b"\x00\xff" * 5000, b"x" * 100_000,
                         b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 9000]:
                client = open_ones.enter_context(socket.create_connection(
                    (address.hostname, address.port), timeout=30))
                with contextlib.suppress(OSError):  # it may have hung up
                    client.sendall(sent)
            assert status_of(url) == 200
        assert process.poll() is None


def test_the_address_is_told_where_little_is(lowtide):
    with shown(lowtide, "--quiet") as (_, url):
        assert status_of(url) == 200


def test_a_port_is_chosen_or_refused(lowtide):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        lowtide("train", *TINY, "--live", "--port", port).fails(2, f"port {port}", "in use")
    for _ in range(2):  # at once after a page that had clients
        with shown(lowtide, "--port", port) as (_, url):
            assert urllib.parse.urlsplit(url).port == port
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while client.recv(1 << 16):  # until the server hangs up, which remembers that
                    pass
    lowtide("train", *TINY, "--port", port).fails(2, "--port needs --live")
    for wrong in (65536, -1, "http"):
        lowtide("train", *TINY, "--live", "--port", wrong).fails(2, "--port", "from 0 to 65535")


def test_nothing_listens_unless_asked(lowtide):
    done = lowtide("train", *TINY, "--steps", 2)
    assert done.code == 0 and "live:" not in done.err + done.out


@pytest.mark.skipif(chromium.PROGRAM is None, reason=chromium.WHY_NOT)
def test_a_browser_draws_it(lowtide):
    with (chromium.opened_browser() as browser,
          shown(lowtide, "--budget", "70%") as (process, url),
          contextlib.closing(chromium.Tab(browser, url, 390, "dark")) as tab):
        tab.wait_for("Number(document.documentElement?.dataset.drawn) > 0")
        figures = dict(tab.value("[...document.querySelectorAll('dl div')].map(box => "
                                 "[box.firstChild.textContent, box.lastChild.textContent])"))
        assert re.fullmatch(r"\d+ of 1000000", figures["steps"])
        assert re.fullmatch(r"\d+:\d\d:\d\d", figures["time left"])
        assert figures["budget"] and figures["measured peak"] and "passes" not in figures
        assert tab.value("[...document.querySelectorAll('section')].map(one => "
                         "one.dataset.chart)") == ["memory of a pass", "loss"]
        assert tab.errors() == []
        process.send_signal(signal.SIGINT)
        tab.wait_for("document.documentElement.dataset.ended === 'true'")
