"""The page of a training that runs: what it says, who may ask, and when it ends."""

import gc
import http.client
import math
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import lowtide
import pytest
import torch
from live_cases import Training, state_of
from lowtide.live_page import RunningTraining, Server
from lowtide.live_page.curve import Curve, mean

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


@pytest.fixture(scope="module")
def served():
    """A server of a training that was not begun; what is asked of it changes nothing."""
    server = Server(0, RunningTraining("served").document)
    yield server
    server.end()
    server.join()


def answer_of(url, path=None, host=None, method="GET"):
    """Status, headers and content. ``host``: the values of the header, several or none; as the
    address has it where it is None."""
    address = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.putrequest(method, path or address.path, skip_host=True)
    for value in [address.netloc] if host is None else host:
        connection.putheader("Host", value)
    connection.endheaders()
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def listens(url):
    address = urllib.parse.urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((address.hostname, address.port)) == 0


def ends(url):
    """Whether nothing listens after a while."""
    until = time.monotonic() + 60
    while listens(url):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def live_threads():
    return [thread for thread in threading.enumerate() if thread.name == "lowtide live"]


def test_a_training_is_shown_while_it_runs():
    without = live_threads()
    plain = Training().steps(6)
    training = Training()
    assert live_threads() == without  # nothing listens unless it is asked for
    with lowtide.live(training.model) as live:
        before = state_of(live)
        assert before["figures"]["planned_bytes"] == training.model.memory.planned_peak
        assert "peak_bytes" not in before["figures"] and before["passes"]["count"] == 0
        first = training.steps(3, live)
        half = state_of(live)
        losses = first + training.steps(3, live)
        state = state_of(live)
        assert listens(live.url)
    assert live_threads() == without and not listens(live.url)
    assert losses == plain  # in every bit
    assert half["values"]["loss"]["values"] == losses[:3]
    assert state["values"]["loss"]["values"] == losses
    assert state["steps"]["count"] == 6 and state["steps"]["per_second"] > 0
    assert state["passes"]["count"] == 5  # the last is over when the next one begins
    memory = state["memory"]
    assert len(memory["peak_bytes"]["values"]) == len(memory["planned_bytes"]["values"]) == 5
    assert state["name"] == "Sequential"
    training.steps(1)
    assert training.model.memory.measured_peak > 0


def test_figures_are_those_of_the_metrics():
    training = Training("1MiB")
    with lowtide.live(training.model) as live:
        training.steps(3)
        seen = state_of(live)
    assert set(seen["figures"]) == set(lowtide.metrics(training.model, ""))
    assert seen["memory"]["peak_bytes"]["values"][-1] == seen["figures"]["peak_bytes"]
    assert seen["figures"]["budget_bytes"] == training.model.memory.budget
    assert seen["steps"] == {"count": 0, "per_second": None}


def test_what_is_shown_is_gone_with_the_page():
    training = Training()
    for _ in range(2):  # one after another
        with lowtide.live(training.model) as live:
            training.steps(2)
            assert state_of(live)["passes"]["count"] >= 1
    live.close()
    assert not listens(live.url)


def test_the_page_ends_with_the_model():
    training = Training()
    live = lowtide.live(training.model)
    training.steps(1)
    assert listens(live.url)
    del training
    torch._dynamo.reset()
    gc.collect()
    assert ends(live.url)


PROGRAM = """
import os, sys, urllib.request
sys.path.insert(0, {tests!r})
import lowtide
from live_cases import Training
training = Training()
live = lowtide.live(training.model)
training.steps(2, live)
assert urllib.request.urlopen(live.url).status == 200
{more}
print(live.url)
"""


@pytest.mark.parametrize("more, code", [("", 0), ("raise SystemExit(live.url)", 1)])
def test_the_page_ends_with_the_process(more, code):
    program = PROGRAM.format(tests=str(ROOT / "tests" / "python"), more=more)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    assert done.returncode == code, done.stderr
    url, = re.findall(r"http://127\.0\.0\.1:\S+", done.stdout + done.stderr)  # beside progress
    assert not listens(url)


FORKS = """
import os, signal
from lowtide.live_page import RunningTraining, Server
server = Server(0, RunningTraining("forks").document)
child = os.fork()
if not child:
    signal.pause()
server.end()
server.join()
print(server.url, flush=True)
input()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
"""


def test_a_forked_process_does_not_keep_the_port():
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")}) as process:
        url = process.stdout.readline().strip()
        is_closed = ends(url)
        process.communicate("\n", timeout=60)
    assert url.startswith("http://") and is_closed


def test_it_listens_on_this_machine_alone(served):
    port = urllib.parse.urlsplit(served.url).port
    listening = [line.split()[1] for table in ("tcp", "tcp6")
                 for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]
                 if line.split()[3] == "0A"]
    assert [where for where in listening if where.endswith(f":{port:04X}")] == [
        f"0100007F:{port:04X}"]


@pytest.mark.parametrize("path, kind", [("", "text/html"), ("live.css", "text/css"),
                                        ("live.js", "text/javascript"),
                                        ("state", "application/json")])
def test_what_is_served_may_run_nothing_of_others(served, path, kind):
    status, headers, content = answer_of(served.url + path)
    assert status == 200 and headers["Content-Type"].startswith(kind) and content
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"].strip() == "lowtide"


@pytest.mark.parametrize("host", ["evil.example:{port}", "evil.example", "127.0.0.1",
                                  "127.0.0.1:1", "localhost.evil.example:{port}", ""])
def test_another_name_of_the_host_is_refused(served, host):
    named = host.format(port=urllib.parse.urlsplit(served.url).port)
    assert answer_of(served.url, host=[named])[0] == 403


def test_no_name_and_two_names_are_refused(served):
    own = urllib.parse.urlsplit(served.url).netloc
    assert answer_of(served.url, host=[])[0] == 403
    assert answer_of(served.url, host=[own, own])[0] == 403
    port = urllib.parse.urlsplit(served.url).port
    assert answer_of(served.url, host=[f"localhost:{port}"])[0] == 200


@pytest.mark.parametrize("path", [
    "/", "/state", "/wrong/", "/wrong/state", "{own}../", "{own}../state", "{own}server.py",
    "{own}%2e%2e/server.py", "{own}/etc/passwd", "{own}state?x", "{own}state/", "{own}./state",
    "{bare}", "http://127.0.0.1{own}state", "*"])
def test_nothing_else_is_served(served, path):
    own = urllib.parse.urlsplit(served.url).path
    status, _, content = answer_of(served.url, path.format(own=own, bare=own.rstrip("/")))
    assert status == 404 and content == b"There is nothing here.\n"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(served, method):
    assert answer_of(served.url, method=method)[0] == 501


def test_a_client_that_says_nothing_stops_no_other(served):
    address = urllib.parse.urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port)):
        assert answer_of(served.url)[0] == 200


def test_each_page_has_a_secret_of_its_own(served):
    other = Server(0, dict)
    assert urllib.parse.urlsplit(other.url).path != urllib.parse.urlsplit(served.url).path
    other.end()
    other.join()


def test_a_port_that_is_taken_is_named(served):
    port = urllib.parse.urlsplit(served.url).port
    with pytest.raises(lowtide.InputError, match=f"port {port} of 127.0.0.1: .*in use"):
        Server(port, dict)


def test_a_port_that_had_a_page_is_free_for_the_next():
    """Also after clients of which the server was the first to hang up."""
    port = 0
    for _ in range(3):
        server = Server(port, dict)
        port = urllib.parse.urlsplit(server.url).port
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            while client.recv(1 << 16):
                pass
        server.end()
        server.join()


@pytest.mark.parametrize("make, words", [
    (lambda: lowtide.live(torch.nn.Linear(2, 2)), "is not wrapped"),
    (lambda: lowtide.live(lowtide.wrap(torch.nn.Linear(2, 2)), port=65536), "at most 65535"),
    (lambda: lowtide.live(lowtide.wrap(torch.nn.Linear(2, 2)), port="80"), "port must be"),
])
def test_what_cannot_be_shown_is_said(make, words):
    before = live_threads()
    with pytest.raises(lowtide.InputError, match=words):
        make()
    assert live_threads() == before


def test_values_are_numbers():
    model = lowtide.wrap(torch.nn.Linear(2, 2))
    with lowtide.live(model) as live:
        live.step(loss=torch.tensor(0.5, requires_grad=True), rate=1)
        live.step(loss=math.nan, rate=float("inf"))
        with pytest.raises(lowtide.InputError, match="loss must be a number, not 'much'"):
            live.step(loss="much")
        values = state_of(live)["values"]
    assert values["loss"]["values"] == [0.5, None]
    assert values["rate"]["values"] == [1.0, None]


@pytest.mark.parametrize("merged", [max, mean])
def test_a_curve_has_an_end(merged):
    curve = Curve(merged)
    added = [float(at * 7919 % 10007) for at in range(50_000)]
    for at, value in enumerate(added):
        curve.add(float(at), value)
    document = curve.document()
    per_point, times, values = (document[key] for key in ("per_point", "seconds", "values"))
    assert 400 <= len(values) == len(times) <= 1000
    groups = [added[begin:begin + per_point] for begin in range(0, len(added), per_point)]
    assert times == [float(begin) for begin in range(0, len(added), per_point)]
    assert values == pytest.approx([merged(group) for group in groups])


def test_names_have_an_end():
    progress = RunningTraining("names")
    for at in range(100):
        progress.note_step({f"value{at}": 1.0})
    assert len(progress.document()["values"]) == 32
